"""Money: integer minor units, one rounding rule, one split of the fee.

An amount is an `int` of the currency's smallest unit (cents for usd, yen for jpy).
A rate is an `int` of parts per million, so that no amount is ever a float.
"""

from __future__ import annotations

from decimal import Context, Decimal, Inexact

from attrs import frozen

PARTS_PER_MILLION = 1_000_000
"""A whole, in parts per million."""

MAX_AMOUNT_MINOR_UNITS = 99_999_999_999
"""The largest amount of minor units that a rate or a total may have."""

_ZERO_DECIMAL_CURRENCIES = frozenset(
    "bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf".split(),
)
"""Currencies whose smallest unit is the unit itself."""

THREE_DECIMAL_CURRENCIES = frozenset("bhd jod kwd omr tnd".split())

_EXACT_CONTEXT = Context(traps=[Inexact])
"""Neither rounds nor underflows: an amount too fine for it is told of instead."""


@frozen
class Currency:
    """A currency by its ISO 4217 code, lower case, with the number of its decimals."""

    code: str

    @property
    def decimals(self) -> int:
        if self.code in _ZERO_DECIMAL_CURRENCIES:
            return 0
        return 3 if self.code in THREE_DECIMAL_CURRENCIES else 2

    def to_decimal(self, minor: int) -> Decimal:
        """The amount as it stands on the wire: `20000` is `Decimal("200.00")`."""
        return Decimal(minor).scaleb(-self.decimals)

    def to_minor(self, amount: Decimal | int) -> int:
        """The amount in minor units; ValueError where it is finer than the currency."""
        try:
            scaled = Decimal(amount).scaleb(self.decimals, _EXACT_CONTEXT)
            return int(scaled.to_integral_exact(context=_EXACT_CONTEXT))
        except Inexact:
            raise ValueError(f"has more than {self.decimals} decimals") from None


def apply_rate(amount: int, ppm: int) -> int:
    """`ppm` parts per million of an amount, rounded half up: the one rounding rule."""
    return (2 * amount * ppm + PARTS_PER_MILLION) // (2 * PARTS_PER_MILLION)


def split_fee(earned: int, fee_ppm: int) -> tuple[int, int]:
    """Part what the booking earned into (platform fee, payout); the two add up to it."""
    fee = apply_rate(earned, fee_ppm)
    return fee, earned - fee
