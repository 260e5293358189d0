"""Pages of the fake processor: the hosted checkout and the onboarding of a payee."""

from contextlib import suppress
from typing import Annotated

from attrs import frozen
from litestar import Response, get, post
from litestar.response import Redirect, Template

from staffbooking_adapters import codec
from staffbooking_adapters.inputs import structure
from staffbooking_core.bounds import TextBounds
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import NotFound
from staffbooking_core.ports import CheckoutPage, PayeePage
from staffbooking_core.usecases import sandbox
from staffbooking_core.usecases.bookings import actions
from staffbooking_http.api import query_string, request_body
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.session import PageRequest, find_visitor, get_call, render


@frozen(kw_only=True)
class CheckoutAction:
    """A client's action on a checkout page: an outcome by name, or `pay` with a test card."""

    outcome: Annotated[str, TextBounds(64)]
    card: Annotated[str, TextBounds(64)] | None = None

    @property
    def processor_outcome(self) -> str:
        """The outcome in the fake processor's form: `card:<card>` for `pay`."""
        return f"card:{self.card}" if self.outcome == "pay" else self.outcome


@get("/sandbox/checkout/{reference:str}")
async def show_checkout(request: PageRequest) -> Template:
    """Show the fake processor's hosted checkout page."""
    call = get_call(request)
    page = await _get_checkout_page(call, request.path_params["reference"])
    return await _render_checkout(call, page)


@post("/sandbox/checkout/{reference:str}", status_code=200)
async def submit_checkout(request: PageRequest) -> Response[bytes] | Template | Redirect:
    """Apply an action sent as a form or as JSON; its outcome is applied before the response."""
    call, reference = get_call(request), request.path_params["reference"]
    await _get_checkout_page(call, reference)
    raw = await request_body.read(call)
    if _is_form_request(call):
        return await _submit_checkout_form(call, reference, raw)
    request_body.check_media_type(call)
    wanted = structure(CheckoutAction, request_body.parse_object(raw))
    page = await sandbox.simulate_checkout(call.ports, reference, wanted.processor_outcome)
    answer = codec.encode({"success": True, "state": page.state})
    return Response(answer, media_type="application/json", status_code=200)


async def _submit_checkout_form(call: Call, reference: str, raw: bytes) -> Template | Redirect:
    wanted = query_string.parse_form(CheckoutAction, raw)
    page = await sandbox.simulate_checkout(call.ports, reference, wanted.processor_outcome)
    if page.message:
        return await _render_checkout(call, page)
    return Redirect(f"/sandbox/checkout/{page.ref}", status_code=303)


async def _render_checkout(call: Call, page: CheckoutPage) -> Template:
    amount = Currency(page.currency).to_decimal(page.amount)
    booked = await _find_booking(call, page.booking_code)
    return render(
        "checkout.html", await find_visitor(call), hosted=page, amount=amount, booked=booked
    )


async def _find_booking(call: Call, code: str) -> Booking | None:
    """The booking that is paid, which the page names in the visitor's language. The processor has
    no more than an English description, and may know bookings that are gone."""
    with suppress(NotFound):
        return await actions.get_by_code(call.ports, code)
    return None


async def _get_checkout_page(call: Call, reference: str) -> CheckoutPage:
    page = await sandbox.get_processor(call.ports).checkout_page(reference)
    if page is None:
        raise NotFound("Checkout")
    return page


@get("/sandbox/payees/{reference:str}")
async def show_onboarding(request: PageRequest) -> Template:
    """Show the fake processor's onboarding page of a payee."""
    call = get_call(request)
    page = await sandbox.get_processor(call.ports).payee_page(request.path_params["reference"])
    return render("payee.html", await find_visitor(call), hosted=_require_payee_page(page))


@post("/sandbox/payees/{reference:str}", status_code=200)
async def complete_onboarding(request: PageRequest) -> Response[bytes] | Redirect:
    """Complete a payee's onboarding, by form or by JSON."""
    call, reference = get_call(request), request.path_params["reference"]
    _require_payee_page(await sandbox.get_processor(call.ports).payee_page(reference))
    raw = await request_body.read(call)
    if not _is_form_request(call):
        request_body.check_media_type(call)
        request_body.parse_object(raw)
    page = await sandbox.complete_payee(call.ports, reference)
    if _is_form_request(call):
        return Redirect(f"/sandbox/payees/{page.ref}", status_code=303)
    answer = codec.encode({"success": True, "ready": page.ready})
    return Response(answer, media_type="application/json", status_code=200)


def _require_payee_page(page: PayeePage | None) -> PayeePage:
    if page is None:
        raise NotFound("Payout account")
    return page


def _is_form_request(call: Call) -> bool:
    declared = b"".join(call.headers(b"content-type")).lower().partition(b";")[0].strip()
    return declared == b"application/x-www-form-urlencoded"


PAGES = (show_checkout, submit_checkout, show_onboarding, complete_onboarding)
