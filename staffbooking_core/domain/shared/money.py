"""Money: integer minor units, one rounding rule, one split of the fee.

An amount is an `int` of the currency's smallest unit (cents for usd, yen for jpy).
A rate is an `int` of parts per million, so that no amount is ever a float.
"""

from __future__ import annotations

from decimal import Context, Decimal, Inexact

from attrs import frozen

__all__ = ["Currency"]

PARTS_PER_MILLION = 1_000_000
"""100 percent, in parts per million."""

MAX_AMOUNT_MINOR_UNITS = 99_999_999_999
"""The largest amount of minor units that a rate or a total may have."""

_ZERO_DECIMAL_CURRENCIES = frozenset(
    "bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf".split(),
)
"""Currencies without decimals: the minor unit is the currency's unit."""

THREE_DECIMAL_CURRENCIES = frozenset("bhd jod kwd omr tnd".split())

CURRENCY_CODES = frozenset(
    """
    aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd btn bwp byn
    bzd cad cdf chf clp cny cop crc cup cve czk djf dkk dop dzd egp ern etb eur fjd fkp gbp gel ghs
    gip gmd gnf gtq gyd hkd hnl htg huf idr ils inr iqd irr isk jmd jod jpy kes kgs khr kmf kpw krw
    kwd kyd kzt lak lbp lkr lrd lsl lyd mad mdl mga mkd mmk mnt mop mru mur mvr mwk mxn myr mzn nad
    ngn nio nok npr nzd omr pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar sbd scr sdg sek sgd
    shp sle sos srd ssp stn svc syp szl thb tjs tmt tnd top try ttd twd tzs uah ugx usd uyu uzs ved
    ves vnd vuv wst xaf xcd xcg xof xpf yer zar zmw zwg
    """.split()
)
"""Codes of ISO 4217 in which prices are made: without funds, metals and codes for tests."""

_EXACT_CONTEXT = Context(traps=[Inexact])
"""Raises Inexact instead of rounding."""


@frozen
class Currency:
    """A currency: its ISO 4217 code in lower case, and its number of decimals."""

    code: str

    @property
    def decimals(self) -> int:
        if self.code in _ZERO_DECIMAL_CURRENCIES:
            return 0
        return 3 if self.code in THREE_DECIMAL_CURRENCIES else 2

    def to_decimal(self, minor: int) -> Decimal:
        """The amount as in JSON: `20000` is `Decimal("200.00")`."""
        return Decimal(minor).scaleb(-self.decimals)

    def to_minor(self, amount: Decimal | int) -> int:
        """The amount in minor units. Raises ValueError for more decimals than the currency has."""
        try:
            scaled = Decimal(amount).scaleb(self.decimals, _EXACT_CONTEXT)
            return int(scaled.to_integral_exact(context=_EXACT_CONTEXT))
        except Inexact:
            raise ValueError(f"has more than {self.decimals} decimals") from None


def apply_rate(amount: int, ppm: int) -> int:
    """`ppm` parts per million of an amount, rounded half up (the only rounding rule)."""
    return (2 * amount * ppm + PARTS_PER_MILLION) // (2 * PARTS_PER_MILLION)


def split_fee(earned: int, fee_ppm: int) -> tuple[int, int]:
    """Split the earned amount into (platform fee, payout); the two add up to it."""
    fee = apply_rate(earned, fee_ppm)
    return fee, earned - fee
