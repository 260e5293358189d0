"""One's own account: passwords, sessions, the address, what one is told, one's data; and the
contact form (CONTRACT 2 and 8)."""

from attrs import asdict

from staffbooking_adapters import codec
from staffbooking_core.domain.notifications.notifications import OPTIONAL, NoticeKind
from staffbooking_core.inputs import (
    ChangePassword,
    ChooseNotifications,
    Contact,
    EraseAccount,
    ForgotPassword,
    ResetPassword,
    VerifyEmail,
)
from staffbooking_core.representations.records import session_record, user_record
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.accounts import accounts
from staffbooking_core.usecases.notifications import inquiries, notifications
from staffbooking_http.api import rate_limits
from staffbooking_http.api.access import SignedOut, WithSession
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.response_schemas import (
    FLAG,
    INSTANT,
    SUCCESS,
    TEXT,
    choice,
    items,
    nullable,
    ref,
    shape,
)

_SUCCESS = shape({"success": SUCCESS})
_CHOICES = shape({"notifications": shape({str(kind): FLAG for kind in OPTIONAL})})


def _succeeded(status: int = 200) -> Reply:
    return Reply(status, codec.encode({"success": True}))


# Passwords ------------------------------------------------------------------------------


@endpoint(
    "POST",
    "/auth/password",
    WithSession(),
    summary="Change the password",
    description="All other sessions end; API keys and the calendar feed stay. Wrong current "
    "passwords count as failed logins do.",
    body=ChangePassword,
    answer=_SUCCESS,
    codes=("bad_credentials",),
)
async def change_password(call: Call) -> Reply:
    await accounts.change_password(call.ports, call.session, call.given, rate_limits.address(call))
    return _succeeded()


@endpoint(
    "POST",
    "/auth/forgot-password",
    SignedOut(),
    summary="Have a link sent by which a password can be set",
    description="The answer is the same whether there is such an account or not. At most 3 times "
    "an hour for an account, and 20 times from an address.",
    body=ForgotPassword,
    answer=_SUCCESS,
)
async def forgot_password(call: Call) -> Reply:
    await accounts.forgot_password(call.ports, call.given, rate_limits.address(call))
    return _succeeded()


@endpoint(
    "POST",
    "/auth/reset-password",
    SignedOut(),
    summary="Set a password by the token of a mail",
    description="The token works once, for {reset_lifetime}. All sessions end; API keys and the "
    "calendar feed stay.",
    body=ResetPassword,
    answer=_SUCCESS,
    codes=("token_invalid",),
)
async def reset_password(call: Call) -> Reply:
    await accounts.reset_password(call.ports, call.given)
    return _succeeded()


# Sessions -------------------------------------------------------------------------------


@endpoint(
    "GET",
    "/auth/sessions",
    WithSession(),
    summary="Where one is signed in",
    description="The newest first.",
    answer=shape({"sessions": items(ref("Session"))}),
)
async def list_sessions(call: Call) -> Reply:
    found = await accounts.sessions(call.ports, call.user)
    records = [session_record(session, call.session) for session in found]
    return Reply(200, codec.encode({"sessions": records}))


@endpoint(
    "DELETE",
    "/auth/sessions/{id}",
    WithSession(),
    summary="Sign out somewhere else",
    answer=_SUCCESS,
    not_found="Session",
)
async def end_session(call: Call) -> Reply:
    await accounts.end_session(call.ports, call.user, call.params[0])
    return _succeeded()


@endpoint(
    "DELETE",
    "/auth/sessions",
    WithSession(),
    summary="Sign out everywhere else",
    answer=_SUCCESS,
)
async def end_other_sessions(call: Call) -> Reply:
    await accounts.end_other_sessions(call.ports, call.session)
    return _succeeded()


# The address ----------------------------------------------------------------------------


@endpoint(
    "POST",
    "/auth/verification",
    WithSession(),
    summary="Have the link sent again that confirms the address",
    description="At most 3 times an hour, and 20 times from an address.",
    answer=_SUCCESS,
    codes=("already_verified",),
)
async def send_verification(call: Call) -> Reply:
    await accounts.send_verification(call.ports, call.user, rate_limits.address(call))
    return _succeeded()


@endpoint(
    "POST",
    "/auth/verify-email",
    SignedOut(),
    summary="Confirm the address by the token of a mail",
    description="The token works once, for {verification_lifetime}.",
    body=VerifyEmail,
    answer=shape({"success": SUCCESS, "user": ref("User")}),
    codes=("token_invalid",),
)
async def verify_email(call: Call) -> Reply:
    user = await accounts.verify_email(call.ports, call.given.token)
    return Reply(200, codec.encode({"success": True, "user": user_record(user)}))


# What one is told -----------------------------------------------------------------------


def _choices(chosen: dict[NoticeKind, bool]) -> Reply:
    return Reply(200, codec.encode({"notifications": chosen}))


@endpoint(
    "GET",
    "/account/notifications",
    WithSession(),
    summary="What one is told by mail, of what one may refuse",
    answer=_CHOICES,
)
async def show_notifications(call: Call) -> Reply:
    return _choices(await notifications.choices(call.ports, call.user.id))


@endpoint(
    "PUT",
    "/account/notifications",
    WithSession(),
    summary="Choose what to be told by mail",
    description="What is left out stays as it is.",
    body=ChooseNotifications,
    answer=_CHOICES,
)
async def choose_notifications(call: Call) -> Reply:
    given = asdict(call.given.notifications)
    wanted = {NoticeKind(kind): on for kind, on in given.items() if on is not None}
    return _choices(await notifications.choose(call.ports, call.user.id, wanted))


# One's data -----------------------------------------------------------------------------


@endpoint(
    "GET",
    "/account/export",
    WithSession(),
    summary="All that is kept about oneself",
    description="Records as they stand elsewhere in the interface; a profile that never was is "
    "null. Secrets are not in it. The answer comes as it is made: one that breaks off is no JSON. "
    "At most 10 times an hour.",
    window="export",
    answer=shape(
        {
            "exported_at": INSTANT,
            "user": ref("User"),
            "profile": nullable({"type": "object"}),
            "availability": nullable({"type": "object"}),
            "busy_times": items(shape({"starts_at": INSTANT, "ends_at": INSTANT})),
            "payout_account": nullable({"type": "object"}),
            "bookings": items(ref("Booking")),
            "disputes_opened": items(shape({"booking_code": TEXT, "reason": TEXT})),
            "rebooking_credits": items(
                shape({"booking_code": TEXT, "expires_at": INSTANT, "used": FLAG})
            ),
            "messages": items(ref("Message")),
            "reviews_written": items(ref("Review")),
            "reviews_received": items(ref("Review")),
            "inquiries": items({"type": "object"}),
            "sessions": items(shape({"created_at": INSTANT, "last_seen_at": INSTANT})),
            "api_keys": items(ref("ApiKey")),
            "webhooks": items(ref("Webhook")),
            "portfolio": items({"type": "object"}),
            "images": items(TEXT),
            "calendar_feed": nullable(shape({"created_at": INSTANT})),
            "refused_notices": items(choice(OPTIONAL)),
            "last_seen_at": nullable(INSTANT),
        }
    ),
)
async def export(call: Call) -> Reply:
    return Reply(200, pieces=codec.pieces(await privacy.export(call.ports, call.user.id)))


@endpoint(
    "POST",
    "/account/erase",
    WithSession(),
    summary="Be forgotten",
    description="Names, addresses, messages, profile, images, keys and sessions are erased, for "
    "good. Bookings stay, without a name. Wrong passwords count as failed logins do.",
    body=EraseAccount,
    answer=_SUCCESS,
    codes=("bad_credentials", "open_bookings"),
)
async def erase(call: Call) -> Reply:
    password, address = call.given.password, rate_limits.address(call)
    await privacy.erase_myself(call.ports, call.user.id, password, address)
    return _succeeded()


# The contact form -----------------------------------------------------------------------


@endpoint(
    "POST",
    "/contact",
    SignedOut(),
    summary="Ask the operators",
    body=Contact,
    status=201,
    window="contact",
    answer=_SUCCESS,
)
async def ask(call: Call) -> Reply:
    await inquiries.ask(call.ports, call.given)
    return _succeeded(201)
