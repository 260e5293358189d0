"""What pages are asked by, who is signed in there, and what they answer with."""

import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, TypeAlias, TypeVar

from attrs import astuple, evolve, field, frozen
from litestar import Request
from litestar.datastructures import State
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.users import Actor, Session, User, csrf_token, session_digest
from staffbooking_core.errors import Forbidden, StaffbookingError, Unauthenticated
from staffbooking_core.inputs import Characters, Text
from staffbooking_core.usecases.accounts import sessions
from staffbooking_http.api import query_string, rate_limits, request_body, uploads
from staffbooking_http.api.access import session_token, staff_only
from staffbooking_http.api.endpoint import Call, Reply, Site
from staffbooking_http.api.errors import Refused, to_reply
from staffbooking_http.api.query_string import Page
from staffbooking_http.api.uploads import Upload

Asked: TypeAlias = Request[Any, Any, State]
F = TypeVar("F")
T = TypeVar("T")

SIGN_IN = "/account/sign-in"


def call_of(request: Asked) -> Call:
    site: Site = request.state.site
    call = Call(site, request.scope, request.receive)  # type: ignore[arg-type]
    call.params = tuple(request.path_params.values())
    call.rules = (site.ports.policy.limits.general,)
    return call


@frozen(kw_only=True)
class _Way:
    next: Annotated[str, Text(1000, 0, characters=Characters.OPAQUE)] = ""


_OURS = re.compile(r"/(?!/)[!-\[\]-~]*")
"""A path of this service: what begins with two slashes, or with a backslash among them, is
another host's for browsers."""


def wanted(call: Call) -> str:
    """Where one wanted to go before one had to sign in: a path of ours, or nothing."""
    way = query_string.read(_Way, call.scope["query_string"]).next
    return way if _OURS.fullmatch(way) else ""


@frozen(kw_only=True)
class _Paged:
    page: Page = 1


def page_of(call: Call) -> int:
    """Which page of a list is asked for."""
    return query_string.read(_Paged, call.scope["query_string"]).page


def said(call: Call, word: bytes) -> bool:
    """Whether the address ends in a word, by which a page is told what happened."""
    return word in call.scope["query_string"].split(b"&")


def told(call: Call, words: Mapping[str, str]) -> str | None:
    """What happened, of all that a page tells by the word that its address ends in."""
    return next((text for word, text in words.items() if said(call, word.encode())), None)


# Who is there ---------------------------------------------------------------------------


@frozen
class Visitor:
    """Who is signed in at a page."""

    user: User
    token: str = field(repr=False)
    """Of the session."""
    session: Session

    @property
    def actor(self) -> Actor:
        return Actor(self.user.id, self.user.role)

    @property
    def csrf(self) -> str:
        """What the forms of their pages bear."""
        return csrf_token(self.token)


async def visitor_of(call: Call) -> Visitor | None:
    """Who is signed in; the session is in use by that. Noted for the page of an error."""
    token = session_token(call.scope["headers"])
    if token is None:
        return None
    caller = await call.ports.admission.by_session(session_digest(token), call.now)
    if caller is None:
        return None
    session = await sessions.touch(call.ports, caller.session)
    visitor = Visitor(caller.user, token, session)
    call.scope["state"]["visitor"] = visitor
    return visitor


# What is sent ---------------------------------------------------------------------------

Written = Annotated[str, Text(request_body.MOST_BYTES, 0, characters=Characters.OPAQUE)]
"""What somebody filled in, as it stands in the form again where it can't be taken."""


@frozen(kw_only=True)
class Proof:
    """What a form bears that stands on a page of the visitor's."""

    csrf: Annotated[str, Text(1000, 0, characters=Characters.OPAQUE)] = field(
        default="", repr=False
    )


async def read_form(call: Call, visitor: Visitor, cls: type[F]) -> F:
    """What a visitor sent from a page of ours, counted as any other call of theirs. Raises
    Forbidden `csrf_failed`, LimitExceeded and InvalidInput."""
    return await take(call, visitor, cls, await proven(call, visitor))


async def proven(call: Call, visitor: Visitor) -> bytes:
    """The form that a visitor sent, if it stood on a page of theirs, without what was left
    empty. Raises Forbidden `csrf_failed`."""
    return _proven(visitor, await request_body.read(call))


def _proven(visitor: Visitor, raw: bytes) -> bytes:
    shown = query_string.read_form(Proof, raw).csrf
    if not hmac.compare_digest(shown.encode(), visitor.csrf.encode()):
        raise Forbidden("csrf_failed", "The form has lapsed: load its page again")
    # Browsers count a line break as one, and send two.
    return filled(raw).replace(b"%0D%0A", b"%0A")


async def read_file(
    call: Call,
    visitor: Visitor,
    like: str,
    most: int,
    work: Callable[[Upload], Awaitable[T]],
    noted: Callable[[bytes], object] = lambda _: None,
) -> T:
    """Read a form that brings a file of at most so many bytes, counted as any call, and work on
    it in its turn with all that bring files to the interface's path `like`. What stands beside
    the file comes as `proven` gives it, and `noted` is told it before anything else is done or
    refused, but for a visitor who comes too often. Raises Forbidden `csrf_failed`, LimitExceeded,
    InvalidInput and Refused."""
    await rate_limits.count(call, f"user:{visitor.user.id}")

    def note(form: bytes) -> bytes:
        form = _proven(visitor, form)
        noted(form)
        return form

    async def read() -> Upload:
        # Where it is no form at all, nothing stands beside anything.
        upload = await uploads.read(call, most, lambda form: note(form) if form else None)
        return evolve(upload, form=note(upload.form))

    return await call.site.turns[like].carry(call, visitor.user.id, read, work)


def filled(raw: bytes) -> bytes:
    """A form or a query without what was left empty, which browsers send too."""
    return b"&".join(part for part in raw.split(b"&") if part.partition(b"=")[2])


async def take(call: Call, visitor: Visitor, cls: type[F], form: bytes) -> F:
    """What a proven form says, once it is counted. Raises LimitExceeded and InvalidInput."""
    await rate_limits.count(call, f"user:{visitor.user.id}")
    return query_string.read_form(cls, form)


# What is shown --------------------------------------------------------------------------


def shown(
    page: str, visitor: Visitor | None = None, reply: Reply | None = None, **context: Any
) -> Template:
    """A page as the visitor sees it; with status and headers of a reply, if one is given."""
    if visitor is not None:
        context |= {"user": visitor.user, "csrf": visitor.csrf}
    if reply is None:
        return Template(page, context=context)
    headers = {name.decode(): value.decode() for name, value in reply.headers}
    return Template(page, context=context, status_code=reply.status, headers=headers)


def refused(
    page: str, visitor: Visitor | None, error: StaffbookingError | Refused, **context: Any
) -> Template:
    """A page that says as its `problem` why something was not done, with the error's status."""
    reply = to_reply(error)
    assert reply is not None, error
    return shown(page, visitor, reply, problem=in_words(reply), **context)


_NAMES = {
    "content": "your message",
    "file": "the file",
    "location_city": "city",
    "location_country": "country",
    "service_types": "list of services",
    "timezone": "time zone",
    "years_experience": "years of experience",
}
"""Of fields that forms call otherwise."""


def named(field: str) -> str:
    """What a field is called in forms: an element of a list as its place there."""
    name, _, place = field.partition(".")
    name = _NAMES.get(name, name.replace("_", " "))
    return f"{name}: number {int(place) + 1}" if place.isdecimal() else name


def in_words(reply: Reply) -> str:
    """The refusal of the interface as a sentence for people."""
    problem = request_body.parse(reply.body)
    if seconds := problem.get("retry_after"):
        minutes = -(-seconds // 60)
        return f"That was too often. Try again in {minutes} minute{'s' if minutes > 1 else ''}."
    if faults := problem.get("errors"):
        name = named(faults[0]["field"])
        return f"{name.capitalize()} {faults[0]['message'].replace('_', ' ')}."
    return f"{problem['error']}."


# Who is signed out ----------------------------------------------------------------------


class SignInFirst(Exception):
    """A page that is for somebody who is signed in, and what the others are answered with."""

    def __init__(self, answer: Template | Redirect) -> None:
        self.answer = answer


async def signed_in(call: Call, back: str = "") -> Visitor:
    """Who is signed in. Raises SignInFirst, which leads others to sign in, and then back to what
    they asked for."""
    if (visitor := await visitor_of(call)) is not None:
        return visitor
    way = back or _asked(call)
    if call.scope["method"] == "POST" and (words := await _written(call)):
        error = Unauthenticated("unauthenticated", "Your session has ended")
        raise SignInFirst(refused("ended.html", None, error, words=words, way=way))
    raise SignInFirst(Redirect(SIGN_IN, query_params={"next": way}, status_code=303))


async def staff_member(call: Call, back: str = "") -> Visitor:
    """The staff member who is signed in. Raises as `signed_in`, and Forbidden `staff_only`."""
    visitor = await signed_in(call, back)
    staff_only(visitor.user, call.now)
    return visitor


def _asked(call: Call) -> str:
    """The page, with its query unless that takes too many words."""
    path, query = call.scope["path"], call.scope["query_string"]
    return f"{path}?{query.decode('latin-1')}" if 0 < len(query) <= query_string.SHORT else path


@frozen(kw_only=True)
class _Words:
    """What people write in forms of pages, in each of them one of these."""

    bio: Written = ""
    comment: Written = ""
    content: Written = ""
    reason: Written = ""
    response: Written = ""


async def _written(call: Call) -> str:
    """What was written in a form that is sent signed out: the session has ended since it was
    shown, so it is given back. Nothing of what a page of somebody else's sends, of which
    browsers tell: it would stand there as if the visitor had said it. A file is not read."""
    declared = b"".join(call.headers(b"content-type")).lower()
    if set(call.headers(b"sec-fetch-site")) - {b"same-origin"} or b"multipart" in declared:
        return ""
    return "".join(astuple(query_string.read_form(_Words, await request_body.read(call))))
