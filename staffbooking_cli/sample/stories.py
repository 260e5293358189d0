"""All sample bookings around today: every state, for the customer and for the staff member that the
demo's visitors sign in as."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from staffbooking_cli.sample import stories_ahead, stories_disputed, stories_over
from staffbooking_cli.sample.cast import Cast
from staffbooking_cli.sample.stage import Person, StaffMember
from staffbooking_cli.sample.telling import HOUR, Telling
from staffbooking_cli.sample.walk import Story
from staffbooking_core.operator_inputs import ResolutionOutcome

_Tell: TypeAlias = Callable[[Telling, Person, Sequence[StaffMember]], Story]


def tell_all(telling: Telling, cast: Cast) -> list[Story]:
    """Most stories twice: the customer with somebody, and somebody with the staff member."""
    return [
        *_tell_ahead(telling, cast),
        *_tell_both_sides(telling, cast.customer, cast.colleagues),
        *_tell_both_sides(telling, cast.second_customer, (cast.staff,)),
        stories_over.tell_reviewed(telling, cast.customer, [cast.staff]),
        stories_over.tell_reviewed(telling, cast.customer, cast.others),
        stories_disputed.tell_overdue_dispute(telling, cast.guests[1], cast.others[1:]),
        stories_disputed.tell_resolved_dispute(
            telling, cast.customer, cast.others[2:], ResolutionOutcome.SPLIT
        ),
        stories_disputed.tell_resolved_dispute(
            telling, cast.second_customer, [cast.staff], ResolutionOutcome.REFUND
        ),
    ]


def _tell_both_sides(
    telling: Telling, customer: Person, staff: Sequence[StaffMember]
) -> Iterator[Story]:
    """Stories of a customer with several staff members in turn."""
    tellers: tuple[_Tell, ...] = (
        stories_over.tell_awaiting_payout,
        stories_over.tell_unreviewed,
        stories_over.tell_declined,
        stories_over.tell_unanswered,
        stories_over.tell_unpaid,
        stories_over.tell_withdrawn,
        stories_over.tell_early_cancellation,
        partial(stories_over.tell_late_cancellation, notice=36 * HOUR, days_ago=19),
        partial(stories_over.tell_late_cancellation, notice=6 * HOUR, days_ago=27),
        stories_over.tell_staff_cancellation,
        stories_disputed.tell_open_dispute,
        stories_disputed.tell_no_show,
    )
    for index, tell in enumerate(tellers):
        turn = index % len(staff)
        yield tell(telling, customer, (*staff[turn:], *staff[:turn]))


def _tell_ahead(telling: Telling, cast: Cast) -> Iterator[Story]:
    customer, second, staff = cast.customer, cast.second_customer, [cast.staff]
    yield stories_ahead.tell_pending(telling, customer, cast.colleagues)
    yield stories_ahead.tell_pending(telling, second, staff)
    yield stories_ahead.tell_pending(telling, customer, staff, days_ahead=16, hours=5)
    yield stories_ahead.tell_accepted(telling, customer, cast.colleagues[1:])
    yield stories_ahead.tell_accepted(telling, second, staff, rival=cast.guests[0])
    yield stories_ahead.tell_paid(telling, customer, cast.others)
    yield stories_ahead.tell_paid(telling, second, staff, days_ahead=7)
    yield stories_ahead.tell_paid(telling, customer, staff, days_ahead=5, insurance=True)
    yield stories_ahead.tell_today(telling, customer, cast.staff)
    yield stories_ahead.tell_under_way(telling, customer, cast.staff)
    yield stories_ahead.tell_group(telling, customer, (cast.staff, *cast.colleagues))
    yield stories_ahead.tell_platform_booking(telling, cast.enterprise, second, cast.others)
