"""Minor units, the rounding rule, and the split of the fee."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given, strategies as st

from staffbooking_core.domain.shared.money import (
    MAX_AMOUNT_MINOR_UNITS,
    PARTS_PER_MILLION,
    Currency,
    apply_rate,
    split_fee,
)

AMOUNTS = st.integers(0, MAX_AMOUNT_MINOR_UNITS)
RATES = st.integers(0, PARTS_PER_MILLION)


@pytest.mark.parametrize("code, decimals", [("usd", 2), ("eur", 2), ("jpy", 0), ("kwd", 3)])
def test_a_currency_knows_its_decimals(code, decimals):
    """Most currencies have two decimals, some none, a few three."""
    assert Currency(code).decimals == decimals


@pytest.mark.parametrize(
    "code, minor, wire",
    [("usd", 20_000, "200.00"), ("usd", 1, "0.01"), ("jpy", 5_000, "5000"), ("kwd", 1, "0.001")],
)
def test_the_wire_shows_the_exact_decimals(code, minor, wire):
    """An amount is shown with exactly the currency's decimals."""
    assert str(Currency(code).to_decimal(minor)) == wire


@given(AMOUNTS, st.sampled_from(["usd", "jpy", "kwd"]))
def test_an_amount_comes_back_from_the_wire(minor, code):
    """Converting an amount to decimal and back gives the same amount."""
    currency = Currency(code)
    assert currency.to_minor(currency.to_decimal(minor)) == minor


@pytest.mark.parametrize("code, text", [("usd", "1.001"), ("jpy", "0.5"), ("kwd", "0.0001")])
def test_an_amount_finer_than_the_currency_is_refused(code, text):
    """An amount with too many decimals is refused."""
    with pytest.raises(ValueError, match="decimals"):
        Currency(code).to_minor(Decimal(text))


@pytest.mark.parametrize("text", ["1e-99999999", "0.5e-999999", "39." + "9" * 32])
def test_no_amount_is_rounded_on_its_way(text):
    """An amount with very many decimals is refused, not rounded."""
    with pytest.raises(ValueError, match="more than 2 decimals"):
        Currency("usd").to_minor(Decimal(text))


@pytest.mark.parametrize("amount, ppm, part", [(1, 500_000, 1), (3, 500_000, 2), (5, 100_000, 1)])
def test_a_half_is_rounded_up(amount, ppm, part):
    """Half a minor unit is rounded up."""
    assert apply_rate(amount, ppm) == part


@given(AMOUNTS, RATES)
def test_a_share_is_rounded_half_up(amount, ppm):
    """A share equals the exact value, rounded half up."""
    exact = Decimal(amount) * ppm / PARTS_PER_MILLION
    assert apply_rate(amount, ppm) == exact.quantize(Decimal(1), ROUND_HALF_UP)


@given(AMOUNTS, RATES)
def test_fee_and_payout_add_up(kept, ppm):
    """Fee and payout add up to the amount, and neither is negative."""
    fee, payout = split_fee(kept, ppm)
    assert fee + payout == kept
    assert min(fee, payout) >= 0
