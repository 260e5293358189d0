"""Shared page functions: requests, the signed-in visitor, CSRF-checked forms, rendering."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, urlencode

from attrs import evolve, field, frozen
from litestar import Request
from litestar.datastructures import State
from litestar.response import Redirect, Template

from staffbooking_core.bounds import AllowedCharacters, TextBounds
from staffbooking_core.domain.accounts.users import csrf_token
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.errors import InvalidInput, StaffbookingError, Unauthenticated
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import idempotency
from staffbooking_core.usecases.accounts import sessions
from staffbooking_core.usecases.idempotency import IdempotentCall, Response
from staffbooking_http.api import query_string, rate_limits, request_body, uploads
from staffbooking_http.api.access import (
    authenticate_session,
    check_csrf,
    find_session_token,
    require_staff,
)
from staffbooking_http.api.access_log import note_caller
from staffbooking_http.api.endpoint import AppContext, Call, Reply, Scope, SignedInUser
from staffbooking_http.api.errors import HttpError, to_reply
from staffbooking_http.api.query_string import PageNumber
from staffbooking_http.api.uploads import Upload
from staffbooking_http.pages.faults import ErrorSentence, faults_by_field

PageRequest: TypeAlias = Request[Any, Any, State]
FormT = TypeVar("FormT")
ResultT = TypeVar("ResultT")

SIGN_IN_PATH = "/account/sign-in"


def get_call(request: PageRequest) -> Call:
    site: AppContext = request.app.state.site
    call = Call(site, request.scope, request.receive)  # type: ignore[arg-type]
    call.params = tuple(request.path_params.values())
    call.rules = (site.ports.policy.limits.general,)
    return call


@frozen(kw_only=True)
class _ReturnPathQuery:
    next: Annotated[str, TextBounds(1000, 0, characters=AllowedCharacters.OPAQUE)] = ""


_LOCAL_PATH = re.compile(r"/(?!/)[!-\[\]-~]*")
"""A path on this host. Two leading slashes and backslashes are excluded: browsers may read them as
the start of another host."""


def return_path(call: Call) -> str:
    """The path in `next` to return to after signing in; empty unless it is on this host."""
    way = query_string.parse_query(_ReturnPathQuery, call.scope["query_string"]).next
    return way if _LOCAL_PATH.fullmatch(way) else ""


@frozen(kw_only=True)
class _PageQuery:
    page: PageNumber = 1


def page_number(call: Call) -> int:
    """The requested page of a list, from 1. Raises InvalidInput."""
    return query_string.parse_query(_PageQuery, call.scope["query_string"]).page


def has_flash_code(call: Call, code: bytes) -> bool:
    """Whether the query string contains `code`, which selects a message about a past action."""
    return code in call.scope["query_string"].split(b"&")


def flash_text(call: Call, texts_by_code: Mapping[str, str]) -> str | None:
    """The message whose code is in the query string, or None."""
    return next(
        (text for word, text in texts_by_code.items() if has_flash_code(call, word.encode())), None
    )


# Visitor --------------------------------------------------------------------------------


async def find_visitor(call: Call) -> SignedInUser | None:
    """The signed-in user, or None. Touches the session and stores the visitor for error pages."""
    try:
        found = await authenticate_session(call.ports, call.scope["headers"], call.now)
    except Unauthenticated:
        return None
    visitor = evolve(found, session=await sessions.touch_session(call.ports, found.session))
    call.scope["state"]["visitor"] = visitor
    note_caller(call.scope, visitor.user.id)
    return visitor


def unchecked_csrf(scope: Scope) -> str:
    """The CSRF token of the session in the cookie, which may have ended; empty without one. For
    pages that do not ask the store."""
    token = find_session_token(scope["headers"])
    return "" if token is None else csrf_token(token)


# Forms ----------------------------------------------------------------------------------

DraftText = Annotated[
    str, TextBounds(request_body.MAX_BODY_BYTES, 0, characters=AllowedCharacters.OPAQUE)
]
"""Submitted text without validation, to refill the form after an error."""


@frozen(kw_only=True)
class CsrfForm:
    """The CSRF token field of every form shown to a signed-in visitor."""

    csrf: Annotated[str, TextBounds(1000, 0, characters=AllowedCharacters.OPAQUE)] = field(
        default="", repr=False
    )


async def read_form(call: Call, visitor: SignedInUser, cls: type[FormT]) -> FormT:
    """The CSRF-checked and parsed form, counted against the visitor's rate limit.

    Raises Forbidden `csrf_failed`, RateLimitExceeded and InvalidInput.
    """
    return await parse_counted_form(call, visitor, cls, await read_verified_form(call, visitor))


async def read_verified_form(call: Call, visitor: SignedInUser) -> bytes:
    """The CSRF-checked raw form without empty fields. Raises Forbidden `csrf_failed`."""
    return _verify_form(visitor, await request_body.read(call))


def _verify_form(visitor: SignedInUser, raw: bytes) -> bytes:
    submitted = query_string.parse_form(CsrfForm, raw).csrf.encode()
    check_csrf(visitor, [submitted], "The form has lapsed: load its page again")
    # Browsers count a line break as one character in `maxlength`, and send CR LF.
    return drop_empty_fields(raw).replace(b"%0D%0A", b"%0A")


async def read_upload_form(
    call: Call,
    visitor: SignedInUser,
    upload_path: str,
    max_bytes: int,
    process: Callable[[Upload], Awaitable[ResultT]],
    on_fields: Callable[[bytes], object] = lambda _: None,
) -> ResultT:
    """Read a form with a file of at most `max_bytes` and run `process` on it.

    1. The request is counted against the visitor's rate limit.
    2. It waits for a slot of the upload limiter of the API path `upload_path`.
    3. The form is read and its CSRF token checked; `on_fields` gets the other fields, so that they
       can refill the form if the file is rejected.
    4. `process` runs with the upload, whose `other_fields` have no empty fields.

    Raises Forbidden `csrf_failed`, RateLimitExceeded, InvalidInput and HttpError.
    """
    await rate_limits.count_user(call, visitor.user.id)

    def note(form: bytes) -> bytes:
        form = _verify_form(visitor, form)
        on_fields(form)
        return form

    async def read() -> Upload:
        # A body that is not a form has no other fields.
        upload = await uploads.read_upload(
            call, max_bytes, lambda form: note(form) if form else None
        )
        return evolve(upload, other_fields=note(upload.other_fields))

    return await call.site.upload_limiters[upload_path].process(
        call, visitor.user.id, read, process
    )


def drop_empty_fields(raw: bytes) -> bytes:
    """A form or query string without its empty fields, which browsers send too."""
    return b"&".join(part for part in raw.split(b"&") if part.partition(b"=")[2])


def read_query(call: Call, cls: type[FormT]) -> FormT:
    """The parsed query string without its empty fields. Raises InvalidInput."""
    return query_string.parse_query(cls, drop_empty_fields(call.scope["query_string"]))


async def parse_counted_form(
    call: Call, visitor: SignedInUser, cls: type[FormT], form: bytes
) -> FormT:
    """Count the request, then parse a verified form. Raises RateLimitExceeded and InvalidInput."""
    await rate_limits.count_user(call, visitor.user.id)
    return query_string.parse_form(cls, form)


async def submit_once(
    call: Call,
    visitor: SignedInUser,
    key: str,
    form: bytes,
    submit: Callable[[Ports], Awaitable[str]],
    booking_path: Callable[[Booking], str] | None = None,
) -> tuple[str, bool]:
    """Submit a form once for its key, by `submit` with the given ports; returns the path to go to,
    and whether the form was submitted before. `booking_path` is the path of a booking that `submit`
    requests.

    Raises RuleBroken `idempotency_mismatch` where the key was used for another form.
    """

    def to_response(path: str) -> Response:
        return Response(303, path.encode())

    async def work(ports: Ports) -> Response:
        return to_response(await submit(ports))

    once = form_call(visitor, key, form)
    if booking_path is not None:
        once = evolve(once, booking_response=lambda booking: to_response(booking_path(booking)))
    response = await idempotency.run(call.ports, once, work, lambda error: None)
    return response.body.decode(), response.is_replay


def form_call(visitor: SignedInUser, key: str, form: bytes) -> IdempotentCall:
    """The idempotent call of a form with a key."""
    scope = idempotency.scope_of_user(visitor.user.id)
    return IdempotentCall(scope, key, hashlib.sha256(form).digest())


# Rendering ------------------------------------------------------------------------------


def render(
    template_name: str,
    visitor: SignedInUser | None = None,
    reply: Reply | None = None,
    **context: Any,
) -> Template:
    """Render a page for the visitor, with the status and headers of `reply` if given."""
    if visitor is not None:
        context |= {"user": visitor.user, "csrf": visitor.csrf}
    if reply is None:
        return Template(template_name, context=context)
    headers = {name.decode(): value.decode() for name, value in reply.headers}
    return Template(template_name, context=context, status_code=reply.status, headers=headers)


def render_error(
    template_name: str,
    visitor: SignedInUser | None,
    error: StaffbookingError | HttpError,
    **context: Any,
) -> Template:
    """Render a page with the error's sentence as `problem`, the message of each refused field as
    `faults`, and the error's status."""
    reply = to_reply(error)
    assert reply is not None, error
    faults = faults_by_field(request_body.parse_object(reply.body))
    problem = error_sentence(reply)
    return render(template_name, visitor, reply, problem=problem, faults=faults, **context)


def error_sentence(reply: Reply) -> ErrorSentence:
    """An API error as a sentence for people, with all faults of an input."""
    return ErrorSentence(request_body.parse_object(reply.body))


# Signed-out visitors --------------------------------------------------------------------


class SignInRequired(Exception):
    """The page requires a signed-in user; `response` is the response to send instead."""

    def __init__(self, response: Template | Redirect) -> None:
        self.response = response


async def require_signed_in(
    call: Call, return_to: str = "", *, keeps_upload_fields: bool = False
) -> SignedInUser:
    """The signed-in user.

    Raises SignInRequired, whose response leads to sign-in and back to `return_to`, by default the
    requested path. A form that came too late is kept; of a form with a file, its other fields are
    if the page `keeps_upload_fields`, which then takes them without the file.
    """
    if (visitor := await find_visitor(call)) is not None:
        return visitor
    if call.scope["method"] == "POST" and (form := await _recover_form(call, keeps_upload_fields)):
        error = Unauthenticated("unauthenticated", "Your session has ended")
        target = query_string.requested_address(call.scope)
        raise SignInRequired(render_error("ended.html", None, error, resumed=form, way=target))
    way = return_to or query_string.requested_address(call.scope)
    raise SignInRequired(Redirect(SIGN_IN_PATH, query_params={"next": way}, status_code=303))


async def require_staff_member(call: Call, return_to: str = "") -> SignedInUser:
    """The signed-in staff member. Raises SignInRequired and Forbidden `staff_only`."""
    visitor = await require_signed_in(call, return_to)
    require_staff(visitor.user, call.now)
    return visitor


async def _recover_form(call: Call, keeps_upload_fields: bool) -> str:
    """The form of a request that came after its session had ended, so that it can be sent once its
    author has signed in again.

    Empty for cross-site requests, by `Sec-Fetch-Site`: their content would appear as the visitor's
    own. Empty for forms with passwords, and for multipart forms, whose files are not kept, unless
    the page takes their other fields alone.
    """
    is_upload = b"multipart" in b"".join(call.headers(b"content-type")).lower()
    is_foreign = set(call.headers(b"sec-fetch-site")) - {b"same-origin"}
    if is_foreign or (is_upload and not keeps_upload_fields):
        return ""
    raw = await (_read_upload_fields if is_upload else request_body.read)(call)
    form = drop_empty_fields(raw).decode("latin-1")
    pairs = [(name, value) for name, value in parse_qsl(form) if name != "csrf"]
    return "" if any("password" in name for name, _ in pairs) else urlencode(pairs)


async def _read_upload_fields(call: Call) -> bytes:
    """The fields of a multipart form except its file, of which little is read."""
    fields = b""

    def note(form: bytes) -> None:
        nonlocal fields
        fields = form

    with suppress(HttpError, InvalidInput):
        fields = (await uploads.read_upload(call, _MAX_UNKEPT_BYTES, note)).other_fields
    return fields


_MAX_UNKEPT_BYTES = 1024
"""Of a file that nobody may keep."""
