"""Stripe's minimum and maximum charge amounts by currency."""

from __future__ import annotations

from typing import Final

from staffbooking_core.domain.shared.money import MAX_AMOUNT_MINOR_UNITS

_MIN_AMOUNTS: Final = {
    "aed": 200,
    "aud": 50,
    "bgn": 100,
    "brl": 50,
    "cad": 50,
    "chf": 50,
    "czk": 1500,
    "dkk": 250,
    "eur": 50,
    "gbp": 30,
    "hkd": 400,
    "inr": 50,
    "jpy": 50,
    "mxn": 1000,
    "myr": 200,
    "nok": 300,
    "nzd": 50,
    "pln": 200,
    "ron": 200,
    "sek": 300,
    "sgd": 50,
    "thb": 1000,
    "usd": 50,
}
"""Minimum amounts published by Stripe, in minor units."""

_DEFAULT_MIN_AMOUNT: Final = 1000
"""For currencies without a published minimum; Stripe requires about half a US dollar."""

_MAX_AMOUNTS: Final = {
    "cop": 9_999_999_999,
    "huf": 9_999_999_999,
    "idr": MAX_AMOUNT_MINOR_UNITS,  # Stripe takes twelve digits.
    "inr": 999_999_999,
    "jpy": 9_999_999_999,
    "lbp": MAX_AMOUNT_MINOR_UNITS,
}
"""Maximum amounts of payments by card, in minor units: Stripe limits the number of digits."""

_DEFAULT_MAX_AMOUNT: Final = 99_999_999


def min_amount(currency: str) -> int:
    """The minimum total of one payment, in minor units."""
    return _MIN_AMOUNTS.get(currency, _DEFAULT_MIN_AMOUNT)


def max_amount(currency: str) -> int:
    """The maximum total of one payment, in minor units."""
    return _MAX_AMOUNTS.get(currency, _DEFAULT_MAX_AMOUNT)
