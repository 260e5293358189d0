"""All sample bookings around today: every state, for the customer and for the staff member that the
demo's visitors sign in as."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from staffbooking_cli.sample import scenarios_disputed, scenarios_finished, scenarios_upcoming
from staffbooking_cli.sample.actions import Person, StaffMember
from staffbooking_cli.sample.participants import Participants
from staffbooking_cli.sample.scenario_context import HOUR, ScenarioContext
from staffbooking_cli.sample.scenario_runner import Scenario
from staffbooking_core.operator_inputs import ResolutionOutcome

_MakeScenario: TypeAlias = Callable[[ScenarioContext, Person, Sequence[StaffMember]], Scenario]


def all_scenarios(context: ScenarioContext, participants: Participants) -> list[Scenario]:
    """Most scenarios twice: the customer with somebody, and somebody with the staff member."""
    return [
        *_upcoming_scenarios(context, participants),
        *_scenarios_of_customer(context, participants.customer, participants.colleagues),
        *_scenarios_of_customer(context, participants.second_customer, (participants.staff,)),
        scenarios_finished.reviewed_scenario(context, participants.customer, [participants.staff]),
        scenarios_finished.reviewed_scenario(context, participants.customer, participants.others),
        scenarios_disputed.overdue_dispute_scenario(
            context, participants.guests[1], participants.others[1:]
        ),
        scenarios_disputed.resolved_dispute_scenario(
            context, participants.customer, participants.others[2:], ResolutionOutcome.SPLIT
        ),
        scenarios_disputed.resolved_dispute_scenario(
            context, participants.second_customer, [participants.staff], ResolutionOutcome.REFUND
        ),
    ]


def _scenarios_of_customer(
    context: ScenarioContext, customer: Person, staff: Sequence[StaffMember]
) -> Iterator[Scenario]:
    """Scenarios of a customer with several staff members in turn."""
    makers: tuple[_MakeScenario, ...] = (
        scenarios_finished.awaiting_payout_scenario,
        scenarios_finished.unreviewed_scenario,
        scenarios_finished.declined_scenario,
        scenarios_finished.unanswered_scenario,
        scenarios_finished.unpaid_scenario,
        scenarios_finished.withdrawn_scenario,
        scenarios_finished.early_cancellation_scenario,
        partial(scenarios_finished.late_cancellation_scenario, notice=36 * HOUR, days_ago=19),
        partial(scenarios_finished.late_cancellation_scenario, notice=6 * HOUR, days_ago=27),
        scenarios_finished.staff_cancellation_scenario,
        scenarios_disputed.open_dispute_scenario,
        scenarios_disputed.no_show_scenario,
    )
    for index, make_scenario in enumerate(makers):
        turn = index % len(staff)
        yield make_scenario(context, customer, (*staff[turn:], *staff[:turn]))


def _upcoming_scenarios(context: ScenarioContext, participants: Participants) -> Iterator[Scenario]:
    customer, second, staff = (
        participants.customer,
        participants.second_customer,
        [participants.staff],
    )
    yield scenarios_upcoming.pending_scenario(context, customer, participants.colleagues)
    yield scenarios_upcoming.pending_scenario(context, second, staff)
    yield scenarios_upcoming.pending_scenario(context, customer, staff, days_ahead=16, hours=5)
    yield scenarios_upcoming.accepted_scenario(context, customer, participants.colleagues[1:])
    yield scenarios_upcoming.accepted_scenario(context, second, staff, rival=participants.guests[0])
    yield scenarios_upcoming.paid_scenario(context, customer, participants.others)
    yield scenarios_upcoming.paid_scenario(context, second, staff, days_ahead=7)
    yield scenarios_upcoming.paid_scenario(context, customer, staff, days_ahead=5, insurance=True)
    yield scenarios_upcoming.today_scenario(context, customer, participants.staff)
    yield scenarios_upcoming.under_way_scenario(context, customer, participants.staff)
    yield scenarios_upcoming.group_scenario(
        context, customer, (participants.staff, *participants.colleagues)
    )
    yield scenarios_upcoming.platform_booking_scenario(
        context, participants.enterprise, second, participants.others
    )
