"""Tables by family, and the upgrade that creates them."""

__all__ = ["upgrade"]
