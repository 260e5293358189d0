"""The checklist of new staff members on their home page."""

from collections.abc import Mapping, Sequence

from attrs import frozen

from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.completeness import FirstStep, StepState, first_steps
from staffbooking_core.usecases.companions import profiles
from staffbooking_core.usecases.payments import payees
from staffbooking_http.api.endpoint import Call, SignedInUser


@frozen
class _StepText:
    """A step in words, as message ids: its title, why it is done, and where, by which button."""

    title: str
    text: str
    path: str = ""
    button: str = ""


_TEXTS: Mapping[FirstStep, _StepText] = {
    FirstStep.ADDRESS: _StepText(
        "Confirm your e-mail address",
        "Open the link in the mail that we have sent you.",
        "/account/verify-email",
        "Send it again",
    ),
    FirstStep.PROFILE: _StepText(
        "Fill in your profile",
        "Your services, your price and your city are all that customers need to find you.",
        "/staff/me",
        "Fill it in",
    ),
    FirstStep.HOURS: _StepText(
        "Say when you work",
        "Until then you count as free all day, every day.",
        "/staff/hours",
        "Set your hours",
    ),
    FirstStep.PAYOUT_ACCOUNT: _StepText(
        "Open your payout account",
        "So that your money knows where to go after the first event.",
        "/staff/payouts",
        "Open it",
    ),
    FirstStep.APPROVAL: _StepText(
        "We approve your profile",
        "We look at each profile by hand, as soon as yours is filled in.",
    ),
}
_WAITING_TEXT = "We are looking at it. Customers find you as soon as that is done."


@frozen
class ShownStep:
    """A first step as it is shown; `is_next` is the first that the visitor does."""

    state: StepState
    title: str
    text: str
    path: str
    button: str
    is_next: bool


async def load_first_steps(call: Call, visitor: SignedInUser) -> Sequence[ShownStep]:
    """The checklist; empty once the profile is approved and can be paid out to."""
    companion = await profiles.get_profile(call.ports, visitor.actor)
    needs_account = payees.payouts_need_account(call.ports)
    payee = await payees.get_payee(call.ports, visitor.actor) if needs_account else None
    can_be_paid = not needs_account or (payee is not None and payee.ready)
    if can_be_paid and companion.approval is not Approval.PENDING:
        return ()
    states = [
        state
        for state in first_steps(visitor.user, companion, has_payout_account=can_be_paid)
        if needs_account or state.step is not FirstStep.PAYOUT_ACCOUNT
    ]
    own = (state.step for state in states if not state.is_done and _TEXTS[state.step].path)
    first = next((step for step in own if step is not FirstStep.ADDRESS), None)
    return [_show(state, is_next=state.step is first) for state in states]


def _show(state: StepState, *, is_next: bool) -> ShownStep:
    given = _TEXTS[state.step]
    text = _WAITING_TEXT if state.is_waiting else given.text
    return ShownStep(state, given.title, text, given.path, given.button, is_next)
