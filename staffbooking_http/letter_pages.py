"""Pages that mails lead to. Who has the token of a mail may do what it is for: there is no
session to steal, so no CSRF token either. To load a page does nothing: programs that look at
mails for people load what they link to.
"""

from attrs import field, frozen
from litestar import get, post
from litestar.response import Template

from staffbooking_core.errors import InvalidInput, NotFound, RuleBroken
from staffbooking_core.inputs import Password, ResetPassword
from staffbooking_core.usecases import accounts, notices
from staffbooking_http import bodies, queries
from staffbooking_http.visits import Asked, call_of

WORDS = {
    "accepted": "when your bookings are accepted",
    "payout": "when you are paid out",
    "new_message": "when somebody writes to you",
}
"""Of the kinds that can be refused."""

_BROKEN = "This link is wrong, was used already, or has expired."


@frozen(kw_only=True)
class _NewPassword:
    password: Password = field(repr=False)


def _shown(page: str, status: int = 200, **context: object) -> Template:
    return Template(page, context=context, status_code=status)


@get("/notifications/unsubscribe/{token:str}")
async def unsubscribing(request: Asked) -> Template:
    """Where one ends mails of a kind."""
    try:
        kind = await notices.of_token(call_of(request).ports, request.path_params["token"])
    except RuleBroken:
        raise NotFound("Link") from None
    return _shown("unsubscribe.html", words=WORDS[kind], done=False)


@post("/notifications/unsubscribe/{token:str}", status_code=200)
async def unsubscribe(request: Asked) -> Template:
    """End mails of a kind: by the button, or by a mail program at one click (RFC 8058)."""
    try:
        kind = await notices.unsubscribe(call_of(request).ports, request.path_params["token"])
    except RuleBroken:
        raise NotFound("Link") from None
    return _shown("unsubscribe.html", words=WORDS[kind], done=True)


@get("/account/verify-email/{token:str}")
async def verifying(request: Asked) -> Template:
    """Where one confirms one's address."""
    try:
        await accounts.check_verification(call_of(request).ports, request.path_params["token"])
    except RuleBroken:
        return _shown("verify.html", 400, problem=_BROKEN)
    return _shown("verify.html")


@post("/account/verify-email/{token:str}", status_code=200)
async def verify(request: Asked) -> Template:
    """Confirm the address."""
    try:
        await accounts.verify_email(call_of(request).ports, request.path_params["token"])
    except RuleBroken:
        return _shown("verify.html", 400, problem=_BROKEN)
    return _shown("verify.html", done=True)


@get("/account/reset-password/{token:str}")
async def resetting(request: Asked) -> Template:
    """Where one sets a new password."""
    try:
        await accounts.check_reset(call_of(request).ports, request.path_params["token"])
    except RuleBroken:
        return _shown("reset.html", 400, problem=_BROKEN)
    return _shown("reset.html", form=True)


@post("/account/reset-password/{token:str}", status_code=200)
async def reset(request: Asked) -> Template:
    """Set the password of the form."""
    call = call_of(request)
    raw = await bodies.read(call)
    try:
        given = queries.read_form(_NewPassword, raw)
        token = request.path_params["token"]
        wanted = ResetPassword(token=token, password=given.password)
        await accounts.reset_password(call.ports, wanted)
    except InvalidInput as error:
        problem = f"The password {error.faults[0].message}."
        return _shown("reset.html", 422, form=True, problem=problem)
    except RuleBroken:
        return _shown("reset.html", 400, problem=_BROKEN)
    return _shown("reset.html", done=True)


PAGES = (unsubscribing, unsubscribe, verifying, verify, resetting, reset)
