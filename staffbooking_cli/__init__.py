"""The command line: maps commands to use-cases and starts the server and worker processes."""

__all__ = ["main"]
