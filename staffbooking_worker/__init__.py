"""The worker: it runs timers, effects and deliveries when they are due."""

__all__ = ["jobs", "main"]
