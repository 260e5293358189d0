"""docs/idempotency.md: its figures and names are those of the service."""

from __future__ import annotations

from pathlib import Path

from staffbooking_adapters.testing.builders import HOUR, POLICY, SECOND
from staffbooking_http.api.idempotency import MAX_KEY_LENGTH

PAGE = " ".join(
    (Path(__file__).parents[2] / "docs/idempotency.md").read_text(encoding="utf-8").split()
)


def test_the_figures_are_those_of_the_service() -> None:
    """The length of a key, the lifetime of a response and the lease are those of the service."""
    for figure in (
        f"1 to {MAX_KEY_LENGTH} printable ASCII characters",
        f"For {POLICY.idempotency_lifetime // HOUR} hours the same key",
        f"for {POLICY.lease_duration // SECOND} seconds while they run",
    ):
        assert figure in PAGE
