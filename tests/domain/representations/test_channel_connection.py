"""A connection gets each message once and in order, whatever the order of events is.

The model is a store of messages, a process that gives them to a connection one after the
other, and the loop by which the connection catches up: `CatchUp` of the runner, with a `yield`
wherever something else may happen in between.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from staffbooking_core.representations.channel import ConnectionPhase, ConnectionState

PAGE = 2
"""Number of messages in one page from the store."""


class ConnectionModel(RuleBasedStateMachine):
    """A state machine of one user's connection."""

    def __init__(self) -> None:
        super().__init__()
        self.line = ConnectionState(user_id=5, name="Mia")
        self.stored: list[bool] = []
        """For each message, whether the user receives it. Ids count from 1."""
        self.given = 0
        """Id of the last message that the process has broadcast."""
        self.ready: int | None = None
        """Id of the last message in the first frame."""
        self.asked: int | None = None
        """Id after which the client must get all messages; None before the first frame."""
        self.told: list[int] = []
        """Ids of the messages delivered since."""
        self.catching_up: Iterator[None] | None = None

    def newer(self, after: int) -> list[int]:
        """The user's messages after this id."""
        numbers = enumerate(self.stored, 1)
        return [number for number, is_theirs in numbers if is_theirs and number > after]

    # Rules --------------------------------------------------------------------------------

    @rule(is_theirs=st.booleans())
    def store(self, is_theirs: bool) -> None:
        self.stored.append(is_theirs)

    @precondition(lambda self: self.given < len(self.stored))
    @rule()
    def give(self) -> None:
        self.given += 1
        if self.stored[self.given - 1] and self.line.should_deliver(self.given):
            self.told.append(self.given)

    @precondition(lambda self: self.ready is None)
    @rule()
    def look(self) -> None:
        self.ready = max(self.newer(0), default=0)

    @precondition(lambda self: self.ready is not None and self.asked is None)
    @rule()
    def greet(self) -> None:
        assert self.ready is not None
        self.line.mark_ready(self.ready)
        self.asked = self.ready

    @precondition(lambda self: self.asked is not None)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        """Resume after any id that the client can know."""
        assert self.ready is not None
        known = max([self.ready, *self.told])
        after = data.draw(st.integers(0, known))
        self.line.resume_after(after)
        self.asked, self.told = after, []
        self.catch_up_soon()

    @precondition(lambda self: self.asked is not None and self.line.phase is ConnectionPhase.QUIET)
    @rule()
    def end_of_quiet(self) -> None:
        self.catch_up_soon()

    @precondition(lambda self: self.catching_up is not None)
    @rule(steps=st.integers(1, 4))
    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            if self.catching_up is not None and next(self.catching_up, "ended") == "ended":
                self.catching_up = None

    # The loop -----------------------------------------------------------------------------

    def catch_up_soon(self) -> None:
        line = self.line
        if line.newest_known_id <= line.cursor:
            line.mark_caught_up(line.cursor)
        elif self.catching_up is None:
            line.phase = ConnectionPhase.CATCHING_UP
            self.catching_up = self.catch_up()

    def catch_up(self) -> Iterator[None]:
        while self.line.phase is not ConnectionPhase.LIVE:
            yield from self.tell_page()

    def tell_page(self) -> Iterator[None]:
        line = self.line
        start, upto = line.cursor, line.newest_known_id
        yield
        found = self.newer(start)[:PAGE]
        yield
        for number in found:
            yield
            if line.cursor != start:
                return
            start = line.cursor = number
            self.told.append(number)
        if len(found) < PAGE and line.cursor == start:
            line.mark_caught_up(upto)

    # Invariants ---------------------------------------------------------------------------

    @invariant()
    def nothing_is_left_out_or_told_twice(self) -> None:
        if self.asked is None or self.line.phase is ConnectionPhase.QUIET:
            assert not self.told
        else:
            assert self.told == self.newer(self.asked)[: len(self.told)]

    def teardown(self) -> None:
        """Finish all deliveries, then check that every message was delivered."""
        if self.ready is None:
            self.look()
        if self.asked is None:
            self.greet()
        if self.line.phase is ConnectionPhase.QUIET:
            self.end_of_quiet()
        while self.given < len(self.stored) or self.catching_up is not None:
            if self.catching_up is not None:
                self.go_on(1)
            if self.given < len(self.stored):
                self.give()
        assert self.asked is not None
        assert self.told == self.newer(self.asked)
        assert self.line.phase is ConnectionPhase.LIVE


def test_no_message_is_left_out_or_told_twice():
    """The connection gets each message after its first frame or last resume once, in order."""
    figures = settings(max_examples=150, stateful_step_count=40)
    run_state_machine_as_test(ConnectionModel, settings=figures)
