"""What pages are asked by, who is signed in there, and what they answer with."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, TypeAlias, TypeVar

from attrs import astuple, evolve, field, frozen
from litestar import Request
from litestar.datastructures import State
from litestar.response import Redirect, Template

from staffbooking_core.errors import StaffbookingError, Unauthenticated
from staffbooking_core.inputs import AllowedCharacters, TextBounds
from staffbooking_core.usecases.accounts import sessions
from staffbooking_http.api import query_string, rate_limits, request_body, uploads
from staffbooking_http.api.access import authenticate_session, check_csrf, require_staff
from staffbooking_http.api.endpoint import AppContext, Call, Reply, SignedInUser
from staffbooking_http.api.errors import HttpError, to_reply
from staffbooking_http.api.query_string import PageNumber
from staffbooking_http.api.uploads import Upload

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
"""A path of this service: what begins with two slashes, or with a backslash among them, is
another host's for browsers."""


def return_path(call: Call) -> str:
    """Where one wanted to go before one had to sign in: a path of ours, or nothing."""
    way = query_string.parse_query(_ReturnPathQuery, call.scope["query_string"]).next
    return way if _LOCAL_PATH.fullmatch(way) else ""


@frozen(kw_only=True)
class _PageQuery:
    page: PageNumber = 1


def page_number(call: Call) -> int:
    """Which page of a list is asked for."""
    return query_string.parse_query(_PageQuery, call.scope["query_string"]).page


def has_flash_code(call: Call, code: bytes) -> bool:
    """Whether the address ends in a word, by which a page is told what happened."""
    return code in call.scope["query_string"].split(b"&")


def flash_text(call: Call, texts_by_code: Mapping[str, str]) -> str | None:
    """What happened, of all that a page tells by the word that its address ends in."""
    return next(
        (text for word, text in texts_by_code.items() if has_flash_code(call, word.encode())), None
    )


# Who is there ---------------------------------------------------------------------------


async def find_visitor(call: Call) -> SignedInUser | None:
    """Who is signed in; the session is in use by that. Noted for the page of an error."""
    try:
        found = await authenticate_session(call.ports, call.scope["headers"], call.now)
    except Unauthenticated:
        return None
    visitor = evolve(found, session=await sessions.touch_session(call.ports, found.session))
    call.scope["state"]["visitor"] = visitor
    return visitor


# What is sent ---------------------------------------------------------------------------

DraftText = Annotated[
    str, TextBounds(request_body.MAX_BODY_BYTES, 0, characters=AllowedCharacters.OPAQUE)
]
"""What somebody filled in, as it stands in the form again where it can't be taken."""


@frozen(kw_only=True)
class CsrfForm:
    """What a form bears that stands on a page of the visitor's."""

    csrf: Annotated[str, TextBounds(1000, 0, characters=AllowedCharacters.OPAQUE)] = field(
        default="", repr=False
    )


async def read_form(call: Call, visitor: SignedInUser, cls: type[FormT]) -> FormT:
    """What a visitor sent from a page of ours, counted as any other call of theirs. Raises
    Forbidden `csrf_failed`, LimitExceeded and InvalidInput."""
    return await parse_counted_form(call, visitor, cls, await read_verified_form(call, visitor))


async def read_verified_form(call: Call, visitor: SignedInUser) -> bytes:
    """The form that a visitor sent, if it stood on a page of theirs, without what was left
    empty. Raises Forbidden `csrf_failed`."""
    return _verify_form(visitor, await request_body.read(call))


def _verify_form(visitor: SignedInUser, raw: bytes) -> bytes:
    submitted = query_string.parse_form(CsrfForm, raw).csrf.encode()
    check_csrf(visitor, [submitted], "The form has lapsed: load its page again")
    # Browsers count a line break as one, and send two.
    return drop_empty_fields(raw).replace(b"%0D%0A", b"%0A")


async def read_upload_form(
    call: Call,
    visitor: SignedInUser,
    upload_path: str,
    max_bytes: int,
    process: Callable[[Upload], Awaitable[ResultT]],
    on_fields: Callable[[bytes], object] = lambda _: None,
) -> ResultT:
    """Read a form that brings a file of at most so many bytes, counted as any call, and work on
    it in its turn with all that bring files to the interface's path `like`. What stands beside
    the file comes as `proven` gives it, and `noted` is told it before anything else is done or
    refused, but for a visitor who comes too often. Raises Forbidden `csrf_failed`, LimitExceeded,
    InvalidInput and Refused."""
    await rate_limits.count_user(call, visitor.user.id)

    def note(form: bytes) -> bytes:
        form = _verify_form(visitor, form)
        on_fields(form)
        return form

    async def read() -> Upload:
        # Where it is no form at all, nothing stands beside anything.
        upload = await uploads.read_upload(
            call, max_bytes, lambda form: note(form) if form else None
        )
        return evolve(upload, other_fields=note(upload.other_fields))

    return await call.site.upload_limiters[upload_path].process(
        call, visitor.user.id, read, process
    )


def drop_empty_fields(raw: bytes) -> bytes:
    """A form or a query without what was left empty, which browsers send too."""
    return b"&".join(part for part in raw.split(b"&") if part.partition(b"=")[2])


async def parse_counted_form(
    call: Call, visitor: SignedInUser, cls: type[FormT], form: bytes
) -> FormT:
    """What a proven form says, once it is counted. Raises LimitExceeded and InvalidInput."""
    await rate_limits.count_user(call, visitor.user.id)
    return query_string.parse_form(cls, form)


# What is shown --------------------------------------------------------------------------


def render(
    template_name: str,
    visitor: SignedInUser | None = None,
    reply: Reply | None = None,
    **context: Any,
) -> Template:
    """A page as the visitor sees it; with status and headers of a reply, if one is given."""
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
    """A page that says as its `problem` why something was not done, with the error's status."""
    reply = to_reply(error)
    assert reply is not None, error
    return render(template_name, visitor, reply, problem=error_sentence(reply), **context)


_FIELD_LABELS = {
    "content": "your message",
    "file": "the file",
    "location_city": "city",
    "location_country": "country",
    "service_types": "list of services",
    "timezone": "time zone",
    "years_experience": "years of experience",
}
"""Of fields that forms call otherwise."""


def field_label(field: str) -> str:
    """What a field is called in forms: an element of a list as its place there."""
    name, _, place = field.partition(".")
    name = _FIELD_LABELS.get(name, name.replace("_", " "))
    return f"{name}: number {int(place) + 1}" if place.isdecimal() else name


def error_sentence(reply: Reply) -> str:
    """The refusal of the interface as a sentence for people."""
    problem = request_body.parse_object(reply.body)
    if seconds := problem.get("retry_after"):
        minutes = -(-seconds // 60)
        return f"That was too often. Try again in {minutes} minute{'s' if minutes > 1 else ''}."
    if faults := problem.get("errors"):
        name = field_label(faults[0]["field"])
        return f"{name.capitalize()} {faults[0]['message'].replace('_', ' ')}."
    return f"{problem['error']}."


# Who is signed out ----------------------------------------------------------------------


class SignInRequired(Exception):
    """A page that is for somebody who is signed in, and what the others are answered with."""

    def __init__(self, response: Template | Redirect) -> None:
        self.response = response


async def require_signed_in(call: Call, return_to: str = "") -> SignedInUser:
    """Who is signed in. Raises SignInFirst, which leads others to sign in, and then back to what
    they asked for."""
    if (visitor := await find_visitor(call)) is not None:
        return visitor
    way = return_to or _requested_path(call)
    if call.scope["method"] == "POST" and (words := await _recover_written_text(call)):
        error = Unauthenticated("unauthenticated", "Your session has ended")
        raise SignInRequired(render_error("ended.html", None, error, words=words, way=way))
    raise SignInRequired(Redirect(SIGN_IN_PATH, query_params={"next": way}, status_code=303))


async def require_staff_member(call: Call, return_to: str = "") -> SignedInUser:
    """The staff member who is signed in. Raises as `signed_in`, and Forbidden `staff_only`."""
    visitor = await require_signed_in(call, return_to)
    require_staff(visitor.user, call.now)
    return visitor


def _requested_path(call: Call) -> str:
    """The page, with its query unless that takes too many words."""
    path, query = call.scope["path"], call.scope["query_string"]
    return (
        f"{path}?{query.decode('latin-1')}"
        if 0 < len(query) <= query_string.MAX_CACHED_QUERY_BYTES
        else path
    )


@frozen(kw_only=True)
class _WrittenTexts:
    """What people write in forms of pages, in each of them one of these."""

    bio: DraftText = ""
    comment: DraftText = ""
    content: DraftText = ""
    reason: DraftText = ""
    response: DraftText = ""


async def _recover_written_text(call: Call) -> str:
    """What was written in a form that is sent signed out: the session has ended since it was
    shown, so it is given back. Nothing of what a page of somebody else's sends, of which
    browsers tell: it would stand there as if the visitor had said it. A file is not read."""
    declared = b"".join(call.headers(b"content-type")).lower()
    if set(call.headers(b"sec-fetch-site")) - {b"same-origin"} or b"multipart" in declared:
        return ""
    return "".join(astuple(query_string.parse_form(_WrittenTexts, await request_body.read(call))))
