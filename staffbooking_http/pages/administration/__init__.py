"""Pages for operators, all below `/admin`."""

__all__ = ["handlers"]
