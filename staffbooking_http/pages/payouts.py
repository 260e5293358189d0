"""The page of a staff member's payout account, to which the processor leads back."""

from typing import Any

from litestar import get, post
from litestar.response import Template

from staffbooking_core.domain.payments.payees import PayeeStatus
from staffbooking_core.errors import InvalidInput, ProcessorUnavailable, RuleBroken
from staffbooking_core.inputs import OpenPayoutAccount
from staffbooking_core.usecases.payments import payees
from staffbooking_http.api.access import staff_only
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.session import (
    Asked,
    Visitor,
    call_of,
    read_form,
    refused,
    said,
    shown,
    staff_member,
    visitor_of,
)

_PATH = "/staff/payouts"
_PAGE = "payouts.html"


@get(_PATH)
async def payouts(request: Asked) -> Template:
    """Where a staff member opens a payout account, and comes back to from the processor."""
    call = call_of(request)
    if (visitor := await visitor_of(call)) is None:
        return shown(_PAGE)
    staff_only(visitor.user, call.now)
    return shown(_PAGE, visitor, **await _seen(call, visitor))


@post(_PATH, status_code=200)
async def open_account(request: Asked) -> Template:
    """Open the account, or go on with it: the answer leads to the processor's page. It does not
    redirect there: browsers hold a form to `form-action` wherever it is redirected to."""
    call = call_of(request)
    visitor = await staff_member(call)
    try:
        given = await read_form(call, visitor, OpenPayoutAccount)
        _, link = await payees.open_page(call.ports, visitor.actor, given.country)
    except (RuleBroken, InvalidInput, ProcessorUnavailable) as error:
        return refused(_PAGE, visitor, error, **await _seen(call, visitor))
    return shown(_PAGE, visitor, url=link.url)


async def _seen(call: Call, visitor: Visitor) -> dict[str, Any]:
    """What the page shows of an account as it stands."""
    done = said(call, b"done")
    find = payees.account_on_return if done else payees.account
    payee = await find(call.ports, visitor.actor)
    return {
        "payee": payee,
        "status": PayeeStatus.NONE if payee is None else payee.status,
        "refused": payees.REFUSED,
        "country": call.ports.policy.country,
        "done": done,
        "again": said(call, b"again"),
    }


PAGES = (payouts, open_account)
