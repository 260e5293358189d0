"""Idempotency keys as Stripe keeps them.

v1: what the first execution answered, refusals and 500s included, is the answer for a day.
v2: what succeeded is answered again for 30 days, what failed is tried again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from attrs import define

from tests.stripe_stub.errors import StripeApiError
from tests.stripe_stub.http_messages import StubResponse

SDK_KEY_PATTERN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The SDK makes up such a key where the caller gave none."""

KEY_LIFETIME = {False: timedelta(days=1), True: timedelta(days=30)}
"""By whether it is v2."""


@define
class KeyRecord:
    """What is known of a key; without an answer its first request still runs."""

    request: Any
    expires_at: datetime
    answer: StubResponse | None = None


class IdempotencyKeys:
    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._records: dict[tuple[bool, str], KeyRecord] = {}

    def find(self, key: str, request: Any, is_v2: bool) -> StubResponse | None:
        """The answer to repeat. Raises for a key that is missing, in use, or of another call."""
        if not key or SDK_KEY_PATTERN.fullmatch(key):
            raise StripeApiError("A POST here needs an explicit Idempotency-Key of the caller")
        if len(key) > 255:
            raise StripeApiError(
                "Idempotency-Key has up to 255 characters", kind="idempotency_error"
            )
        record = self._records.get((is_v2, key))
        if record is None or record.expires_at <= self._now():
            return None
        if record.request != request:
            raise StripeApiError(
                "Keys for idempotent requests can only be used with the same parameters they "
                f"were first used with. Try using a key other than '{key}'.",
                kind="idempotency_error",
            )
        if record.answer is None:
            raise key_in_use_error(key)
        return record.answer.as_replayed()

    def reserve(self, key: str, request: Any, is_v2: bool) -> None:
        self._records[is_v2, key] = KeyRecord(request, self._now() + KEY_LIFETIME[is_v2])

    def store(self, key: str, is_v2: bool, answer: StubResponse) -> None:
        """Keep an answer, or forget the key where a repeat is another try."""
        if is_v2 and answer.status >= 400:
            del self._records[is_v2, key]
        else:
            self._records[is_v2, key].answer = answer


def key_in_use_error(key: str) -> StripeApiError:
    return StripeApiError(
        f"There is currently another in-progress request using this Idempotent Key: {key}.",
        code="idempotency_key_in_use",
        status=409,
    )
