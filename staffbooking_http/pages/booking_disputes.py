"""The page of a dispute: what went wrong, told by both sides with files, and the form to tell it.

The same form opens a dispute and answers in an open one.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_adapters.inputs import structure
from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Trigger
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput, MissingField, RuleBroken
from staffbooking_core.inputs import AddDisputeStatement, DisputeBooking
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import idempotency
from staffbooking_core.usecases.bookings import details, dispute_files, disputes
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.errors import HttpError
from staffbooking_http.api.uploads import FILE_FIELD, Upload
from staffbooking_http.pages.booking_views import booking_context
from staffbooking_http.pages.bookings import booking_path
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    form_call,
    get_call,
    parse_counted_form,
    read_upload_form,
    read_verified_form,
    render,
    render_error,
    require_signed_in,
    submit_once,
)

_TEMPLATE = "booking_dispute.html"
_FILES_PATH = "/bookings/{id}/dispute/files"
_TOO_LARGE_CODE = "body_too_large"
_SHOWN_ERRORS = (InvalidInput, RateLimitExceeded, RuleBroken, HttpError)


@frozen(kw_only=True)
class _StatementDraft:
    """The submitted statement before validation, to refill the form."""

    text: DraftText = ""
    after: DraftText = ""
    """The dispute on the page with the form, and how many statements it had: a text may be repeated
    in a later dispute. A form that opens one has `new-` in front."""

    def may_state_in(self, booking: Booking) -> bool:
        """Whether the form opens a dispute, or answers in the one that is open."""
        if self.after.startswith("new-"):
            return True
        is_open = booking.status is BookingStatus.DISPUTED
        return is_open and self.after.partition("-")[0] == str(booking.dispute_number)


@get("/bookings/{number:str}/problem")
async def show_dispute(request: PageRequest) -> Template | Redirect:
    """Show the dispute and its form; redirect to the booking where nothing can be stated."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    context = await _dispute_page_context(call, visitor.actor)
    if not context["can_state"] and not context["can_dispute"]:
        return Redirect(booking_path(call.path_id("Booking")), status_code=303)
    return render(_TEMPLATE, visitor, draft="", **context)


@post("/bookings/{number:str}/problem", status_code=200)
async def submit_statement(request: PageRequest) -> Template | Redirect:
    """Open a dispute, or state something in an open one, with at most one file; on an error, show
    the form with its text."""
    call = get_call(request)
    visitor = await require_signed_in(call, keeps_upload_fields=True)
    draft = _StatementDraft()

    def note(form: bytes) -> None:
        nonlocal draft
        draft = query_string.parse_form(_StatementDraft, form)

    async def state(upload: Upload | None) -> None:
        await _state(call, visitor, draft, upload)

    try:
        await _read_statement(call, visitor, note, state)
    except _SHOWN_ERRORS as error:
        context = await _dispute_page_context(call, visitor.actor)
        shown = render_error(_TEMPLATE, visitor, error, draft=draft.text, **context)
        if error.code == _TOO_LARGE_CODE:
            most = call.ports.policy.max_image_bytes
            shown.context["faults"] = {FILE_FIELD: f"has more than {most} bytes"}
        return shown
    return Redirect(f"{booking_path(call.path_id('Booking'))}#dispute", status_code=303)


async def _read_statement(
    call: Call,
    visitor: SignedInUser,
    note: Callable[[bytes], None],
    state: Callable[[Upload | None], Awaitable[None]],
) -> None:
    """Read the form and run `state`, with its file if one was chosen. A form that was kept while
    its author signed in again comes without its file."""
    if b"multipart" not in b"".join(call.headers(b"content-type")).lower():
        form = await read_verified_form(call, visitor)
        note(form)
        await parse_counted_form(call, visitor, _StatementDraft, form)
        await state(None)
        return
    max_bytes = call.ports.policy.max_image_bytes
    try:
        await read_upload_form(call, visitor, _FILES_PATH, max_bytes, state, note)
    except MissingField as error:
        if [fault.field for fault in error.field_errors] != [FILE_FIELD]:
            raise
        await state(None)


async def _state(
    call: Call, visitor: SignedInUser, draft: _StatementDraft, upload: Upload | None
) -> None:
    """State a text with a file, once: a form submitted twice states it once. An answer opens no
    dispute, and is made in no later one: whoever writes it has not chosen to."""
    ports, actor, number = call.ports, visitor.actor, call.path_id("Booking")
    given = structure(AddDisputeStatement, {"text": draft.text} if draft.text else {})
    content = b"" if upload is None else upload.content
    form = b"\0".join((str(number).encode(), draft.after.encode(), given.text.encode(), content))
    key = f"statement-{hashlib.sha256(form).hexdigest()}"
    if await idempotency.find_response(ports, form_call(visitor, key, form)):
        return
    found = await details.get_details(ports, actor, number)
    if not draft.may_state_in(found.booking):
        raise RuleBroken("booking_not_disputed", "The dispute that this answers has ended")
    files: tuple[str, ...] = ()
    if upload is not None:
        file = await dispute_files.upload_file(ports, actor, number, upload.content, upload.media)
        files = (file.id,)
    is_open = found.booking.status is BookingStatus.DISPUTED

    async def submit(ports: Ports) -> str:
        if is_open:
            statement = AddDisputeStatement(text=given.text, files=files)
            await disputes.add_statement(ports, actor, number, statement)
        else:
            command = DisputeBooking(reason=given.text, files=files)
            await disputes.open_dispute(ports, actor, number, command)
        return booking_path(number)

    await submit_once(call, visitor, key, form, submit)


async def _dispute_page_context(call: Call, actor: Actor) -> dict[str, Any]:
    found = await details.get_details(call.ports, actor, call.path_id("Booking"))
    return {
        **booking_context(found, call.ports.policy),
        "can_dispute": Trigger.DISPUTE in found.triggers,
        "can_report": Trigger.NO_SHOW in found.triggers,
    }


PAGES = (show_dispute, submit_statement)
