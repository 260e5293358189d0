"""Saved people: a customer's list, and the buttons that save and unsave."""

from contextlib import suppress

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.errors import NotFound, RuleBroken
from staffbooking_core.inputs import Id
from staffbooking_core.usecases.companions import saved
from staffbooking_http.api.access import require_customer
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.session import (
    PageRequest,
    flash_text,
    get_call,
    page_number,
    read_form,
    render,
    render_error,
    require_signed_in,
    return_path,
)

_PATH = "/saved"
_TEMPLATE = "saved.html"
_PAGE_SIZE = 24

_FLASH_TEXTS = {"removed": "Taken off your list."}
"""Messages of the list by flash code in the query string."""


@frozen(kw_only=True)
class _SavedForm:
    """The companion to save, or to save no more."""

    companion: Id


@get(_PATH)
async def show_saved(request: PageRequest) -> Template:
    """Show the people whom the customer has saved."""
    call = get_call(request)
    visitor = await _require_customer(call)
    number = page_number(call)
    found = await saved.list_saved(call.ports, visitor.user.id, number, _PAGE_SIZE)
    return render(
        _TEMPLATE,
        visitor,
        people=found[:_PAGE_SIZE],
        number=number,
        has_more=len(found) > _PAGE_SIZE,
        currency=call.ports.policy.currency.code,
        done=flash_text(call, _FLASH_TEXTS),
    )


@post(_PATH, status_code=200)
async def save(request: PageRequest) -> Template | Redirect:
    """Save a companion and return to the page in `next`, by default the profile."""
    call = get_call(request)
    visitor = await _require_customer(call)
    companion_id = (await read_form(call, visitor, _SavedForm)).companion
    try:
        await saved.save_person(call.ports, visitor.actor, companion_id)
    except RuleBroken as error:
        return render_error(_TEMPLATE, visitor, error, people=(), number=1, has_more=False)
    return Redirect(return_path(call) or f"/companions/{companion_id}", status_code=303)


@post("/saved/removal", status_code=200)
async def unsave(request: PageRequest) -> Redirect:
    """Save a companion no more, and return to the page in `next`, by default the list."""
    call = get_call(request)
    visitor = await _require_customer(call)
    companion_id = (await read_form(call, visitor, _SavedForm)).companion
    with suppress(NotFound):
        await saved.unsave_person(call.ports, visitor.actor, companion_id)
    return Redirect(return_path(call) or f"{_PATH}?removed", status_code=303)


async def _require_customer(call: Call) -> SignedInUser:
    """The signed-in customer. Raises SignInRequired and Forbidden `customers_only`."""
    visitor = await require_signed_in(call, _PATH)
    require_customer(visitor.user, call.now)
    return visitor


PAGES = (show_saved, save, unsave)
