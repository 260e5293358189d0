"""The default content filter: blocked terms, and ways to reach or pay somebody."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from staffbooking_core.domain.messaging.conversations import ContentFindings

if TYPE_CHECKING:
    from staffbooking_adapters.content.terms import TermMatcher


_MAX_INLINE_LENGTH = 500
"""Characters that are looked through at once. Longer texts go through a thread, one at a time:
a flood of them slows those who send it."""


class DefaultContentFilter:
    """Blocks the default list of terms and a deployment's own, contact and payment details.

    Lists and patterns are loaded by the first use, or by `load`.
    """

    def __init__(self, terms: Iterable[str] = ()) -> None:
        """`terms` are blocked besides the default ones: words or phrases of any script."""
        self._extra_terms = tuple(terms)
        self._limiter = anyio.CapacityLimiter(1)

    def load(self) -> None:
        """Have everything loaded that the first use would have to wait for."""
        self.find_now("")

    async def scan(self, text: str) -> ContentFindings:
        if len(text) <= _MAX_INLINE_LENGTH:
            return self.find_now(text)
        return await anyio.to_thread.run_sync(self.find_now, text, limiter=self._limiter)

    def find_now(self, text: str) -> ContentFindings:
        """As `find`, at once: some milliseconds for 1,000 characters."""
        from staffbooking_adapters.content.contacts import has_contact
        from staffbooking_adapters.content.folding import fold

        folded = fold(text)
        return ContentFindings(
            has_blocked_term=self._terms.occur_in(folded) and self._has_term_outside_idioms(text),
            has_contact=has_contact(folded.latin),
        )

    def _has_term_outside_idioms(self, text: str) -> bool:
        """Whether a term is there besides names and set phrases."""
        from staffbooking_adapters.content.folding import fold
        from staffbooking_adapters.content.idioms import without_idioms, without_names

        return self._terms.occur_in(without_idioms(fold(without_names(text))))

    @cached_property
    def _terms(self) -> TermMatcher:
        from staffbooking_adapters.content.terms import TermMatcher
        from staffbooking_adapters.content.words import HARMLESS_TERMS, default_terms

        return TermMatcher([*default_terms(), *self._extra_terms], exceptions=HARMLESS_TERMS)
