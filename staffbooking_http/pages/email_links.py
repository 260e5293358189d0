"""Pages that mails lead to. Who has the token of a mail may do what it is for: there is no
session to steal, so no CSRF token either. To load a page does nothing: programs that look at
mails for people load what they link to.
"""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from litestar import get, post
from litestar.response import Template

from staffbooking_core.domain.notifications.notifications import NoticeKind
from staffbooking_core.errors import InvalidInput, RuleBroken
from staffbooking_core.inputs import Password, ResetPassword
from staffbooking_core.usecases.accounts import accounts
from staffbooking_core.usecases.accounts.email_tokens import Purpose
from staffbooking_core.usecases.notifications import notifications
from staffbooking_http.api import query_string, request_body
from staffbooking_http.pages.session import Asked, call_of, shown, visitor_of, wanted

WORDS: Mapping[NoticeKind, str] = {
    NoticeKind.ACCEPTED: "when your bookings are accepted",
    NoticeKind.PAYOUT: "when you are paid out",
    NoticeKind.NEW_MESSAGE: "when somebody writes to you",
}
"""Of the kinds that can be refused."""

_BROKEN = "This link is wrong, was used already, or has expired."


@frozen(kw_only=True)
class _NewPassword:
    password: Password = field(repr=False)


async def _shown(request: Asked, page: str, status: int = 200, **context: Any) -> Template:
    template = shown(page, await visitor_of(call_of(request)), **context)
    template.status_code = status
    return template


@get("/notifications/unsubscribe/{token:str}")
async def unsubscribing(request: Asked) -> Template:
    """Where one ends mails of a kind."""
    try:
        kind = await notifications.of_token(call_of(request).ports, request.path_params["token"])
    except RuleBroken:
        return await _shown(request, "unsubscribe.html", 404, problem=_BROKEN)
    return await _shown(request, "unsubscribe.html", words=WORDS[kind], done=False)


@post("/notifications/unsubscribe/{token:str}", status_code=200)
async def unsubscribe(request: Asked) -> Template:
    """End mails of a kind: by the button, or by a mail program at one click (RFC 8058)."""
    try:
        kind = await notifications.unsubscribe(call_of(request).ports, request.path_params["token"])
    except RuleBroken:
        return await _shown(request, "unsubscribe.html", 404, problem=_BROKEN)
    return await _shown(request, "unsubscribe.html", words=WORDS[kind], done=True)


async def _check(request: Asked, purpose: Purpose) -> None:
    await accounts.check_token(call_of(request).ports, purpose, request.path_params["token"])


@get("/account/verify-email/{token:str}")
async def verifying(request: Asked) -> Template:
    """Where one confirms one's address."""
    try:
        await _check(request, Purpose.VERIFY_EMAIL)
    except RuleBroken:
        return await _shown(request, "verify.html", 400, problem=_BROKEN)
    return await _shown(request, "verify.html")


@post("/account/verify-email/{token:str}", status_code=200)
async def verify(request: Asked) -> Template:
    """Confirm the address."""
    try:
        await accounts.verify_email(call_of(request).ports, request.path_params["token"])
    except RuleBroken:
        return await _shown(request, "verify.html", 400, problem=_BROKEN)
    return await _shown(request, "verify.html", done=True)


@get("/account/reset-password/{token:str}")
async def resetting(request: Asked) -> Template:
    """Where one sets a new password."""
    way = wanted(call_of(request))
    try:
        await _check(request, Purpose.RESET_PASSWORD)
    except RuleBroken:
        return await _shown(request, "reset.html", 400, problem=_BROKEN, way=way)
    return await _shown(request, "reset.html", form=True)


@post("/account/reset-password/{token:str}", status_code=200)
async def reset(request: Asked) -> Template:
    """Set the password of the form."""
    call = call_of(request)
    way = wanted(call)
    raw = await request_body.read(call)
    try:
        given = query_string.read_form(_NewPassword, raw)
        token = request.path_params["token"]
        new = ResetPassword(token=token, password=given.password)
        await accounts.reset_password(call.ports, new)
    except InvalidInput as error:
        problem = f"The password {error.faults[0].message}."
        return await _shown(request, "reset.html", 422, form=True, problem=problem)
    except RuleBroken:
        return await _shown(request, "reset.html", 400, problem=_BROKEN, way=way)
    return await _shown(request, "reset.html", done=True, way=way)


PAGES = (unsubscribing, unsubscribe, verifying, verify, resetting, reset)
