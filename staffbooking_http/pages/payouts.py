"""The payout account page of staff members, to which the processor's onboarding returns."""

from typing import Any

from litestar import get, post
from litestar.response import Template

from staffbooking_core.domain.payments.payees import PayeeStatus
from staffbooking_core.errors import InvalidInput, ProcessorUnavailable, RuleBroken
from staffbooking_core.inputs import OpenPayoutAccount
from staffbooking_core.usecases.payments import payees
from staffbooking_http.api.access import require_staff
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.session import (
    PageRequest,
    find_visitor,
    get_call,
    has_flash_code,
    read_form,
    render,
    render_error,
    require_staff_member,
)

_PATH = "/staff/payouts"
_TEMPLATE = "payouts.html"


@get(_PATH)
async def show_payout_account(request: PageRequest) -> Template:
    """Show the payout account and the form that opens it."""
    call = get_call(request)
    if (visitor := await find_visitor(call)) is None:
        return render(_TEMPLATE)
    require_staff(visitor.user, call.now)
    return render(_TEMPLATE, visitor, **await _payout_account_context(call, visitor))


@post(_PATH, status_code=200)
async def open_payout_account(request: PageRequest) -> Template:
    """Open the account or continue its onboarding; the page links to the processor's page.

    A redirect would fail: browsers apply `form-action` to the redirects of a form too.
    """
    call = get_call(request)
    visitor = await require_staff_member(call)
    try:
        given = await read_form(call, visitor, OpenPayoutAccount)
        _, link = await payees.open_onboarding(call.ports, visitor.actor, given.country)
    except (RuleBroken, InvalidInput, ProcessorUnavailable) as error:
        return render_error(
            _TEMPLATE, visitor, error, **await _payout_account_context(call, visitor)
        )
    return render(_TEMPLATE, visitor, url=link.url)


async def _payout_account_context(call: Call, visitor: SignedInUser) -> dict[str, Any]:
    """The template context of the payout account in its current state."""
    done = has_flash_code(call, b"done")
    find = payees.get_payee_on_return if done else payees.get_payee
    payee = await find(call.ports, visitor.actor)
    return {
        "payee": payee,
        "status": PayeeStatus.NONE if payee is None else payee.status,
        "refused": payees.REFUSED_MESSAGE,
        "country": call.ports.policy.country,
        "done": done,
        "again": has_flash_code(call, b"again"),
    }


PAGES = (show_payout_account, open_payout_account)
