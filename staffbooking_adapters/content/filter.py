"""The default content filter: blocked terms, and ways to reach or pay somebody."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from staffbooking_core.domain.messaging.conversations import Findings

if TYPE_CHECKING:
    from staffbooking_adapters.content.terms import Terms


SHORT = 500
"""Characters that are looked through at once. Longer texts go through a thread, one at a time:
a flood of them slows those who send it."""


class DefaultContentFilter:
    """Blocks the default list of terms and a deployment's own, contact and payment details.

    Lists and patterns are loaded by the first use, or by `load`.
    """

    def __init__(self, terms: Iterable[str] = ()) -> None:
        """`terms` are blocked besides the default ones: words or phrases of any script."""
        self._own = tuple(terms)
        self._limiter = anyio.CapacityLimiter(1)

    def load(self) -> None:
        """Have everything loaded that the first use would have to wait for."""
        self.look("")

    async def find(self, text: str) -> Findings:
        if len(text) <= SHORT:
            return self.look(text)
        return await anyio.to_thread.run_sync(self.look, text, limiter=self._limiter)

    def look(self, text: str) -> Findings:
        """As `find`, at once: some milliseconds for 1,000 characters."""
        from staffbooking_adapters.content.contacts import has_contact
        from staffbooking_adapters.content.folding import fold

        folded = fold(text)
        return Findings(
            has_blocked_term=self._terms.occur_in(folded) and self._is_meant(text),
            has_contact=has_contact(folded.latin),
        )

    def _is_meant(self, text: str) -> bool:
        """Whether a term is there besides names and set phrases."""
        from staffbooking_adapters.content.folding import fold
        from staffbooking_adapters.content.idioms import without_idioms, without_names

        return self._terms.occur_in(without_idioms(fold(without_names(text))))

    @cached_property
    def _terms(self) -> Terms:
        from staffbooking_adapters.content.terms import Terms
        from staffbooking_adapters.content.words import EVERYDAY, default_terms

        return Terms([*default_terms(), *self._own], never=EVERYDAY)
