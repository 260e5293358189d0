"""The hosted page's test cards, with Stripe's test numbers.

    4242 4242 4242 4242   pays
    4000 0000 0000 0002   is declined
    4000 0000 0000 9995   is declined for insufficient funds
    4000 0025 0000 3155   requires a challenge; a second payment passes it
    4000 0000 0000 0259   pays, and is charged back a minute later

Any other number is refused and not stored, since it may be a real card.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from staffbooking_core.errors import invalid_field


class CheckoutOutcome(StrEnum):
    """An outcome of a hosted checkout page."""

    SUCCEED = "succeed"
    DECLINE = "decline"
    INSUFFICIENT_FUNDS = "insufficient_funds"
    EXPIRE = "expire"
    CHALLENGE = "challenge"
    SUCCEED_THEN_CHARGEBACK = "succeed_then_chargeback"


_TEST_CARDS: Final = {
    "4242424242424242": CheckoutOutcome.SUCCEED,
    "4000000000000002": CheckoutOutcome.DECLINE,
    "4000000000009995": CheckoutOutcome.INSUFFICIENT_FUNDS,
    "4000002500003155": CheckoutOutcome.CHALLENGE,
    "4000000000000259": CheckoutOutcome.SUCCEED_THEN_CHARGEBACK,
}

_CARD_PREFIX = "card:"


def find_card_outcome(number: str) -> CheckoutOutcome | None:
    """A test card's outcome, ignoring spaces and hyphens; None for any other number."""
    return _TEST_CARDS.get(number.replace(" ", "").replace("-", ""))


def parse_outcome(text: str) -> CheckoutOutcome | None:
    """Parse an outcome's name or `card:NUMBER`; None if the number is not a test card's.

    Raises InvalidField on `outcome` for anything else.
    """
    if text.startswith(_CARD_PREFIX):
        return find_card_outcome(text.removeprefix(_CARD_PREFIX))
    try:
        return CheckoutOutcome(text)
    except ValueError:
        raise invalid_field("outcome", f"must be one of {', '.join(CheckoutOutcome)}") from None
