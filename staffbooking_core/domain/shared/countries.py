"""Codes of countries (ISO 3166-1)."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def country_codes() -> frozenset[str]:
    """The two letters of each country, as the time zone database lists them."""
    table = resources.files("tzdata").joinpath("zoneinfo", "iso3166.tab").read_text("utf-8")
    return frozenset(line[:2] for line in table.splitlines() if not line.startswith("#"))
