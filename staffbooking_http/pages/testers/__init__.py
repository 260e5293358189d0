"""Pages for those who try the service in a sandbox, all below `/sandbox`, and the bar that leads to
them."""

__all__ = ["bar", "handlers"]
