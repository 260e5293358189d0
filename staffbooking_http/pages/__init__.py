"""The HTML pages of the website."""

__all__ = ["app", "landing", "problems", "rendering", "session"]
