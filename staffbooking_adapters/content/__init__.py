"""The content filter: what must not be said in a message, however it is spelled."""

__all__ = ["filter"]
