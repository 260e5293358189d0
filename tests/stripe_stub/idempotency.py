"""Idempotency keys with Stripe's retention.

v1 repeats the first answer, including errors and 500s, for a day.
v2 repeats a successful answer for 30 days and executes a failed call again.
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
"""The form of the random key that the SDK uses if the caller gives none."""

KEY_LIFETIME = {False: timedelta(days=1), True: timedelta(days=30)}
"""The lifetime of keys; the dictionary's key is whether the call is v2."""


@define
class KeyRecord:
    """A used key. `answer` is None while its first request is running."""

    request: Any
    expires_at: datetime
    answer: StubResponse | None = None


class IdempotencyKeys:
    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._records: dict[tuple[bool, str], KeyRecord] = {}

    def find(self, key: str, request: Any, is_v2: bool) -> StubResponse | None:
        """The stored answer, if any. Raises StripeApiError if the key is missing, too long, in use,
        or was used with other parameters."""
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
        """Store an answer, or delete the key after a failed call of v2."""
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
