"""The one version of the API that the stub speaks."""

VERSION = "2026-10-28.endive"
