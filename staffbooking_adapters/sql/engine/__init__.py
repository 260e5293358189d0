"""Connections, pools, dialects and statement execution; knows no table."""
