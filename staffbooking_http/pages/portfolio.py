"""The portfolio page of staff members: pictures of their work, in their order.

It calls the same use-cases as `/staff/portfolio`, at paths of its own. There is no list of images:
an image that is no longer shown is removed.
"""

from typing import Annotated, Any

from attrs import evolve, frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_adapters.inputs import structure
from staffbooking_core.bounds import TextBounds
from staffbooking_core.errors import RuleBroken
from staffbooking_core.inputs import AddPortfolioItem
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import idempotency
from staffbooking_core.usecases.companions import profiles
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.uploads import FILE_FIELD, Upload
from staffbooking_http.pages.pictures import (
    IMAGES_PATH,
    SHOWN_ERRORS,
    remove_image,
    render_upload_error,
    uploaded_image,
)
from staffbooking_http.pages.session import (
    CsrfForm,
    DraftText,
    PageRequest,
    flash_text,
    form_call,
    get_call,
    read_form,
    read_upload_form,
    render,
    require_staff_member,
    submit_once,
)

_PATH, _TEMPLATE = "/staff/showcase", "portfolio.html"
_ADDED_URL = f"{_PATH}?added"
_FLASH_TEXTS = {
    "added": "Your work is added.",
    "removed": "Your work is removed.",
    "moved": "The order is saved.",
}
"""Messages of the page by flash code in the query string."""
_FORM_REUSED_ERROR = RuleBroken(
    "idempotency_mismatch",
    "This form added something before, filled in otherwise: it is among your work. "
    "Sent now, it adds another piece",
)


@frozen(kw_only=True)
class _ItemDraft:
    """The submitted item before validation, to refill the form."""

    title: DraftText = ""
    description: DraftText = ""
    key: DraftText = ""


@frozen(kw_only=True)
class _ItemForm(AddPortfolioItem):
    """The validated form of an item."""

    key: Annotated[str, TextBounds(255)]
    """Idempotency key, new for each rendered form: a form submitted twice is applied once."""


@frozen(kw_only=True)
class _MoveForm:
    """The direction in which an item moves: one place earlier, or else later."""

    earlier: DraftText = ""


@get(_PATH)
async def show_portfolio(request: PageRequest) -> Template:
    """Show the staff member's portfolio and the form that adds an item."""
    call = get_call(request)
    visitor = await require_staff_member(call)
    return render(
        _TEMPLATE,
        visitor,
        done=flash_text(call, _FLASH_TEXTS),
        draft=_ItemDraft(key=call.ports.ids.token()),
        most_bytes=call.ports.policy.max_image_bytes,
        **await _context(call, visitor),
    )


@post(_PATH, status_code=200)
async def add_portfolio_item(request: PageRequest) -> Template | Redirect:
    """Add a portfolio item; on an error, show the form refilled, without the file."""
    call = get_call(request)
    visitor = await require_staff_member(call)
    draft = _ItemDraft()

    def note(form: bytes) -> None:
        nonlocal draft
        draft = query_string.parse_form(_ItemDraft, form)

    async def keep(upload: Upload) -> None:
        needed = {"title": draft.title or None, "key": draft.key or None}
        texts = {**needed, "description": draft.description, "image": FILE_FIELD}
        await _save(call, visitor, structure(_ItemForm, texts), upload)

    most = call.ports.policy.max_image_bytes
    try:
        await read_upload_form(call, visitor, IMAGES_PATH, most, keep, note)
    except SHOWN_ERRORS as error:
        if error.code == _FORM_REUSED_ERROR.code:
            error, draft = _FORM_REUSED_ERROR, evolve(draft, key="")
        draft = evolve(draft, key=draft.key or call.ports.ids.token())
        items = await _context(call, visitor)
        return render_upload_error(_TEMPLATE, visitor, error, most, draft=draft, **items)
    return Redirect(_ADDED_URL, status_code=303)


async def _save(call: Call, visitor: SignedInUser, given: _ItemForm, upload: Upload) -> None:
    form = upload.other_fields + b"\0" + upload.content
    # Looked up before the image is stored: a replay must not exceed the image quota.
    if await idempotency.find_response(call.ports, form_call(visitor, given.key, form)):
        return
    async with uploaded_image(call, visitor, upload) as image:

        async def submit(ports: Ports) -> str:
            item = evolve(given, image=image.path)
            await profiles.add_portfolio_item(ports, visitor.actor, item)
            return _ADDED_URL

        _, is_replay = await submit_once(call, visitor, given.key, form, submit)
    if is_replay:
        await remove_image(call, visitor, image)


@post("/staff/showcase/{number:str}", status_code=200)
async def remove_portfolio_item(request: PageRequest) -> Redirect:
    """Remove a portfolio item and its image."""
    call = get_call(request)
    visitor = await require_staff_member(call, return_to=_PATH)
    await read_form(call, visitor, CsrfForm)
    number = call.path_id("Portfolio item")
    await profiles.remove_portfolio_item_and_image(call.ports, visitor.actor, number)
    return Redirect(f"{_PATH}?removed", status_code=303)


@post("/staff/showcase/{number:str}/place", status_code=200)
async def move_portfolio_item(request: PageRequest) -> Redirect:
    """Move a portfolio item one place, and lead back to it."""
    call = get_call(request)
    visitor = await require_staff_member(call, return_to=_PATH)
    form = await read_form(call, visitor, _MoveForm)
    number = call.path_id("Portfolio item")
    await profiles.move_portfolio_item(
        call.ports, visitor.actor, number, earlier=bool(form.earlier)
    )
    return Redirect(f"{_PATH}?moved#item-{number}", status_code=303)


async def _context(call: Call, visitor: SignedInUser) -> dict[str, Any]:
    """The template context except the form."""
    return {
        "items": await profiles.list_portfolio_items(call.ports, visitor.actor),
        "most": call.ports.policy.max_portfolio_items,
    }


PAGES = (show_portfolio, add_portfolio_item, remove_portfolio_item, move_portfolio_item)
