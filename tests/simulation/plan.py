"""A history as data: the actions, the rates of faults, and the seed of all other randomness."""

from __future__ import annotations

import random
from collections.abc import Mapping
from enum import StrEnum

from attrs import evolve, field, frozen

DURATION_SECONDS = 20.0
"""Virtual seconds in which the actions of a history begin."""

MIN_ACTIONS, MAX_ACTIONS = 8, 40


class Fault(StrEnum):
    """A fault of one call of a port."""

    FAIL = "fails"
    """The call has no effect, and its caller gets an error."""
    LOSE_ANSWER = "answer lost"
    """The call has its effect, but its caller gets an error."""
    CRASH = "crash before"
    CRASH_AFTER = "crash after"
    CRASH_INSIDE = "crash inside"
    """The process dies in a call of the database's driver, maybe within a transaction."""
    DROP = "dropped"
    """A message disappears."""
    REPEAT = "repeated"
    """The call is made twice."""
    SLOW = "slow"
    """The call takes seconds."""


_MAX_RATES = {
    Fault.FAIL: 0.05,
    Fault.LOSE_ANSWER: 0.05,
    Fault.CRASH: 0.01,
    Fault.CRASH_AFTER: 0.01,
    Fault.CRASH_INSIDE: 0.001,
    Fault.DROP: 0.3,
    Fault.REPEAT: 0.3,
    Fault.SLOW: 0.03,
}

_WEIGHTS = {
    "request": 5,
    "book_by_key": 3,
    "advance": 25,
    "accept": 3,
    "decline": 1,
    "pay": 8,
    "cancel": 3,
    "check_in": 1,
    "confirm": 4,
    "dispute": 2,
    "withdraw": 1,
    "resolve": 3,
    "report_no_show": 1,
    "send_message": 8,
    "send_by_channel": 8,
    "reconnect": 3,
    "charge_back": 1,
    "appeal": 4,
    "move_money": 1,
    "pay_less": 1,
    "onboard": 1,
    "set_payee_readiness": 2,
    "operate_payout": 2,
    "disable": 2,
    "lose_response": 2,
    "processor_fault": 4,
    "event_fault": 3,
    "change_receiver": 2,
    "revoke_session": 1,
    "revoke_key": 1,
    "close_tab": 1,
    "make_keys": 1,
    "flood": 1,
    "let_down": 2,
    "act_on_time": 5,
    "jump_business": 7,
    "pass_time": 4,
    "crash": 4,
    "lose_power": 1,
    "stop": 1,
    "cut_off": 2,
    "skew": 2,
}


@frozen
class Action:
    """An action of a person, a bank, an operator or the environment at a time of a history."""

    at: float
    """Virtual seconds after the start."""
    name: str
    """A method of `Actors`."""
    first: int
    second: int
    """Numbers by which the action picks people, bookings and variants."""

    def __str__(self) -> str:
        return f"{self.at:6.2f} s  {self.name} {self.first} {self.second}"


@frozen
class Plan:
    """A history, which is the same in each run."""

    seed: int
    actions: tuple[Action, ...]
    rates: Mapping[Fault, float]
    """The probability of each fault at a port call that may have it."""
    is_clock_coarse: bool = False
    """Whether clocks tick only once a second, so that people act exactly at deadlines, and many
    things have the same time."""
    muted: frozenset[str] = field(factory=frozenset)
    """The names of decisions that bring no fault for any seed."""
    is_shuffled: bool = True
    """Whether the seed decides which ready task runs next; otherwise the oldest one runs."""

    def without_actions(self, dropped: range) -> Plan:
        kept = [action for number, action in enumerate(self.actions) if number not in dropped]
        return evolve(self, actions=tuple(kept))


def make_plan(seed: int) -> Plan:
    """The history of a seed. Each history leaves out about half of the kinds of faults, since a
    history with all of them rarely gets far."""
    chance = random.Random(seed)
    names, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    count = chance.randint(MIN_ACTIONS, MAX_ACTIONS)
    actions = sorted(
        (
            Action(
                round(chance.uniform(0, DURATION_SECONDS), 3),
                chance.choices(names, weights)[0],
                chance.randrange(1000),
                chance.randrange(1000),
            )
            for _ in range(count)
        ),
        key=lambda action: action.at,
    )
    rates = {
        fault: most * chance.random() for fault, most in _MAX_RATES.items() if chance.random() < 0.5
    }
    return Plan(seed, tuple(actions), rates, is_clock_coarse=chance.random() < 0.4)
