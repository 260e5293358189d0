"""The command line: it translates commands into use-cases and composes the processes."""

__all__ = ["main"]
