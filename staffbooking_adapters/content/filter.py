"""The default content filter: blocked terms, contact and payment details."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from staffbooking_core.domain.messaging.conversations import ContentFindings

if TYPE_CHECKING:
    from staffbooking_adapters.content.term_matcher import TermMatcher


_MAX_INLINE_LENGTH = 500
"""Maximum characters of a text that is scanned inline. Longer texts are scanned in one thread, so
that many of them delay only their senders."""


class DefaultContentFilter:
    """Implements `ContentFilter` with the default terms, a deployment's own terms, and patterns of
    contact and payment details. They are loaded on first use or by `load`."""

    def __init__(self, terms: Iterable[str] = ()) -> None:
        """`terms` are blocked in addition to the default ones: words or phrases in any script."""
        self._extra_terms = tuple(terms)
        self._limiter = anyio.CapacityLimiter(1)

    def load(self) -> None:
        """Preload terms and patterns, so that the first message does not wait for them."""
        self.scan_now("")

    async def scan(self, text: str) -> ContentFindings:
        if len(text) <= _MAX_INLINE_LENGTH:
            return self.scan_now(text)
        return await anyio.to_thread.run_sync(self.scan_now, text, limiter=self._limiter)

    def scan_now(self, text: str) -> ContentFindings:
        """As `scan`, blocking: some milliseconds for 1,000 characters."""
        from staffbooking_adapters.content.contacts import has_contact
        from staffbooking_adapters.content.folding import fold

        folded = fold(text)
        return ContentFindings(
            has_blocked_term=self._terms.matches(folded) and self._has_term_outside_idioms(text),
            has_contact=has_contact(folded.latin),
        )

    def _has_term_outside_idioms(self, text: str) -> bool:
        """Whether a term occurs outside names and idioms."""
        from staffbooking_adapters.content.folding import fold
        from staffbooking_adapters.content.idioms import without_idioms, without_names

        return self._terms.matches(without_idioms(fold(without_names(text))))

    @cached_property
    def _terms(self) -> TermMatcher:
        from staffbooking_adapters.content.blocked_terms import HARMLESS_TERMS, default_terms
        from staffbooking_adapters.content.term_matcher import TermMatcher

        return TermMatcher([*default_terms(), *self._extra_terms], exceptions=HARMLESS_TERMS)
