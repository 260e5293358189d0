"""Pages that emails link to: unsubscribe, verify the email address, reset the password.

The token in the link authorizes the action. No session is used, so no CSRF token is needed. GET
changes nothing, because email scanners load links.
"""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from litestar import get, post
from litestar.response import Template

from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.errors import InvalidInput, RuleBroken
from staffbooking_core.inputs import Password, ResetPassword
from staffbooking_core.usecases.accounts import accounts
from staffbooking_core.usecases.accounts.email_tokens import TokenPurpose
from staffbooking_core.usecases.notifications import notifications
from staffbooking_http.api import query_string, request_body
from staffbooking_http.pages.session import (
    PageRequest,
    drop_empty_fields,
    find_visitor,
    get_call,
    render,
    return_path,
)

NOTICE_DESCRIPTIONS: Mapping[NotificationKind, str] = {
    NotificationKind.ACCEPTED: "when your bookings are accepted",
    NotificationKind.PAYOUT: "when you are paid out",
    NotificationKind.NEW_MESSAGE: "when somebody writes to you",
}
"""Descriptions of the notification kinds that users can turn off."""

_INVALID_LINK_TEXT = "This link is wrong, was used already, or has expired."


@frozen(kw_only=True)
class _NewPasswordForm:
    password: Password = field(repr=False)


async def _render_with_status(
    request: PageRequest, template_name: str, status: int = 200, **context: Any
) -> Template:
    template = render(template_name, await find_visitor(get_call(request)), **context)
    template.status_code = status
    return template


@get("/notifications/unsubscribe/{token:str}")
async def show_unsubscribe(request: PageRequest) -> Template:
    """Show the button that unsubscribes from a kind of notification."""
    try:
        kind = await notifications.kind_of_token(
            get_call(request).ports, request.path_params["token"]
        )
    except RuleBroken:
        return await _render_with_status(
            request, "unsubscribe.html", 404, problem=_INVALID_LINK_TEXT
        )
    return await _render_with_status(
        request, "unsubscribe.html", words=NOTICE_DESCRIPTIONS[kind], done=False
    )


@post("/notifications/unsubscribe/{token:str}", status_code=200)
async def unsubscribe(request: PageRequest) -> Template:
    """Unsubscribe from a kind of notification, by the button or by one-click (RFC 8058)."""
    try:
        kind = await notifications.unsubscribe(
            get_call(request).ports, request.path_params["token"]
        )
    except RuleBroken:
        return await _render_with_status(
            request, "unsubscribe.html", 404, problem=_INVALID_LINK_TEXT
        )
    return await _render_with_status(
        request, "unsubscribe.html", words=NOTICE_DESCRIPTIONS[kind], done=True
    )


async def _check_token(request: PageRequest, purpose: TokenPurpose) -> None:
    await accounts.check_token(get_call(request).ports, purpose, request.path_params["token"])


@get("/account/verify-email/{token:str}")
async def show_verify_email(request: PageRequest) -> Template:
    """Show the button that verifies the email address."""
    try:
        await _check_token(request, TokenPurpose.VERIFY_EMAIL)
    except RuleBroken:
        return await _render_with_status(request, "verify.html", 400, problem=_INVALID_LINK_TEXT)
    return await _render_with_status(request, "verify.html")


@post("/account/verify-email/{token:str}", status_code=200)
async def verify_email(request: PageRequest) -> Template:
    """Verify the email address."""
    try:
        await accounts.verify_email(get_call(request).ports, request.path_params["token"])
    except RuleBroken:
        return await _render_with_status(request, "verify.html", 400, problem=_INVALID_LINK_TEXT)
    return await _render_with_status(request, "verify.html", done=True)


@get("/account/reset-password/{token:str}")
async def show_reset_password(request: PageRequest) -> Template:
    """Show the form that sets a new password."""
    way = return_path(get_call(request))
    try:
        await _check_token(request, TokenPurpose.RESET_PASSWORD)
    except RuleBroken:
        return await _render_with_status(
            request, "reset.html", 400, problem=_INVALID_LINK_TEXT, way=way
        )
    return await _render_with_status(request, "reset.html", form=True)


@post("/account/reset-password/{token:str}", status_code=200)
async def reset_password(request: PageRequest) -> Template:
    """Set the submitted password."""
    call = get_call(request)
    way = return_path(call)
    raw = drop_empty_fields(await request_body.read(call))
    try:
        given = query_string.parse_form(_NewPasswordForm, raw)
        token = request.path_params["token"]
        new = ResetPassword(token=token, password=given.password)
        await accounts.reset_password(call.ports, new)
    except InvalidInput as error:
        faults = {fault.field: fault.message for fault in error.field_errors}
        return await _render_with_status(request, "reset.html", 422, form=True, faults=faults)
    except RuleBroken:
        return await _render_with_status(
            request, "reset.html", 400, problem=_INVALID_LINK_TEXT, way=way
        )
    return await _render_with_status(request, "reset.html", done=True, way=way)


PAGES = (
    show_unsubscribe,
    unsubscribe,
    show_verify_email,
    verify_email,
    show_reset_password,
    reset_password,
)
