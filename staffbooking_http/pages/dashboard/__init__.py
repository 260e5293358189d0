"""Pages for subscribers of the API, all below `/dashboard`."""

__all__ = ["handlers"]
