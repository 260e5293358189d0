"""Connections, pools, dialects and statement execution; knows no table."""

__all__ = ["open"]
