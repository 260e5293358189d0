"""Codes of countries."""

from __future__ import annotations

from staffbooking_core.domain.shared.countries import country_codes


def test_country_codes_are_those_of_iso_3166() -> None:
    """Each code is of two capital letters; codes of unions, of the future and of nobody are not
    among them."""
    codes = country_codes()
    assert len(codes) > 240
    assert all(len(code) == 2 and code.isascii() and code.isupper() for code in codes)
    assert {"BR", "DE", "GB", "PT", "TW", "US"} <= codes
    assert codes.isdisjoint({"EU", "UK", "UN", "XK", "XX", "ZZ"})
