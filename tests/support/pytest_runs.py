"""Runs of pytest within a test."""

from __future__ import annotations

import os


def without_other_plugins() -> dict[str, str]:
    """The environment in which pytest loads only the plugins that it is told to. All that are
    installed take four times as long to load as the rest of pytest."""
    return {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
