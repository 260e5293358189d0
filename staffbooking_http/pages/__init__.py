"""HTML pages for people."""

__all__ = ["app", "session"]
