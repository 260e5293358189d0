"""The API version of the stub."""

VERSION = "2026-10-28.endive"
