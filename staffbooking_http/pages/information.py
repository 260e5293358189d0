"""Pages that explain the service, and the contact form."""

from attrs import asdict, evolve, frozen
from litestar import Response, get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput
from staffbooking_core.inputs import SubmitInquiry
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import idempotency
from staffbooking_core.usecases.notifications import inquiries
from staffbooking_http.api import query_string, request_body
from staffbooking_http.api.access import SignedOutAccess
from staffbooking_http.pages.public import render_public
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    drop_empty_fields,
    find_visitor,
    get_call,
    has_flash_code,
    render,
    render_error,
)
from staffbooking_http.pages.terms import figures_of
from staffbooking_http.routes.accounts import send_inquiry

_CONTACT_PATH = "/contact-us"
_CONTACT_TEMPLATE = "contact.html"
_SENT_CODE = "sent"


@get("/how-it-works")
async def show_how_it_works(request: PageRequest) -> Template | Response[bytes]:
    """Explain a booking from the search to the payout."""
    return await _show_information(request, "how_it_works.html")


@get("/terms")
async def show_terms(request: PageRequest) -> Template | Response[bytes]:
    """Show the terms, with the figures of this deployment's policy."""
    return await _show_information(request, "terms.html")


@get("/help")
async def show_help(request: PageRequest) -> Template | Response[bytes]:
    """Show what people ask, by what they do here."""
    return await _show_information(request, "help.html")


async def _show_information(request: PageRequest, template: str) -> Template | Response[bytes]:
    call = get_call(request)
    visitor = await find_visitor(call)
    return render_public(call, visitor, template, **figures_of(call.ports.policy))


@frozen(kw_only=True)
class _InquiryDraft:
    """The submitted inquiry before validation, to refill the form."""

    name: DraftText = ""
    email: DraftText = ""
    subject: DraftText = ""
    message: DraftText = ""
    key: DraftText = ""
    """New for each rendered form, so that the same text from a new one is another inquiry."""


@get(_CONTACT_PATH)
async def show_contact(request: PageRequest) -> Template:
    """Show the contact form, with the name and e-mail of a signed-in visitor."""
    call = get_call(request)
    draft = _InquiryDraft(key=call.ports.ids.token())
    if (visitor := await find_visitor(call)) is not None:
        draft = evolve(draft, name=visitor.user.name, email=visitor.user.email)
    is_sent = has_flash_code(call, _SENT_CODE.encode())
    return render(_CONTACT_TEMPLATE, visitor, draft=asdict(draft), is_sent=is_sent)


@post(_CONTACT_PATH, status_code=200)
async def submit_contact(request: PageRequest) -> Template | Redirect:
    """Send an inquiry, once where the same form comes twice. Only a valid one spends the address's
    window of inquiries."""
    call = get_call(request)
    visitor = await find_visitor(call)
    form = drop_empty_fields(await request_body.read(call)).replace(b"%0D%0A", b"%0A")
    call.rules = send_inquiry.rate_limit_rules(call.ports.policy.limits)
    try:
        inquiry = query_string.parse_form(SubmitInquiry, form)
        await SignedOutAccess().admit(call)
    except (InvalidInput, RateLimitExceeded) as error:
        draft = query_string.parse_form(_InquiryDraft, form)
        draft = evolve(draft, key=draft.key or call.ports.ids.token())
        return render_error(_CONTACT_TEMPLATE, visitor, error, draft=asdict(draft))

    async def work(ports: Ports) -> idempotency.Response:
        await inquiries.submit_inquiry(ports, inquiry)
        return idempotency.Response(303)

    # A keyed hash of the text and the form's key, so that it reveals nothing of the text.
    name = call.ports.vault.sign("inquiry-of-page", form)
    once = idempotency.IdempotentCall("inquiry", name.hex(), name)
    await idempotency.run(call.ports, once, work, lambda error: None)
    return Redirect(f"{_CONTACT_PATH}?{_SENT_CODE}", status_code=303)


PAGES = (show_how_it_works, show_terms, show_help, show_contact, submit_contact)
