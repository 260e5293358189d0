"""The user's own account: passwords, sessions, email address, notifications, personal data; and
the contact form (CONTRACT 2 and 8)."""

from attrs import asdict

from staffbooking_adapters import codec
from staffbooking_core.domain.notifications.notifications import (
    NotificationKind,
)
from staffbooking_core.inputs import (
    ChangeNotificationPreferences,
    ChangePassword,
    EraseAccount,
    ForgotPassword,
    ResetPassword,
    SubmitInquiry,
    VerifyEmail,
)
from staffbooking_core.representations.accounts import (
    NotificationPreferencesRecord,
    SessionRecord,
    UserRecord,
    notification_preferences_record,
    session_record,
    user_record,
)
from staffbooking_core.representations.json_types import Success
from staffbooking_core.representations.personal_data import PersonalDataRecord
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.accounts import accounts
from staffbooking_core.usecases.notifications import inquiries, notifications
from staffbooking_http.api import addresses
from staffbooking_http.api.access import SessionAccess, SignedOutAccess
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.response_schemas import (
    reply_schema,
    type_schema,
)
from staffbooking_http.api.security_log import log_security_event

_SUCCESS_SCHEMA = reply_schema("Success", success=Success)
_CHOICES_SCHEMA = reply_schema(
    "NotificationPreferencesReply", notifications=NotificationPreferencesRecord
)


def _success_reply(status: int = 200) -> Reply:
    return Reply(status, codec.encode({"success": True}))


# Passwords ------------------------------------------------------------------------------


@endpoint(
    "POST",
    "/auth/password",
    SessionAccess(),
    operation_id="changePassword",
    summary="Change the password",
    description="All other sessions end; API keys and the calendar feed stay. Wrong current "
    "passwords count as failed logins.",
    body=ChangePassword,
    response_schema=_SUCCESS_SCHEMA,
    rule_codes=("bad_credentials",),
)
async def change_password(call: Call) -> Reply:
    await accounts.change_password(
        call.ports, call.signed_in.session, call.parsed_input, addresses.client_address_key(call)
    )
    log_security_event(call, "password_changed", user_id=call.user.id)
    return _success_reply()


@endpoint(
    "POST",
    "/auth/forgot-password",
    SignedOutAccess(),
    operation_id="forgotPassword",
    summary="Send a link to set a new password",
    description="The answer is the same whether there is such an account or not. At most "
    "{reset_account_limit} times {reset_account_rate} for an account, and {reset_address_limit} "
    "times from an address.",
    body=ForgotPassword,
    response_schema=_SUCCESS_SCHEMA,
)
async def forgot_password(call: Call) -> Reply:
    await accounts.forgot_password(
        call.ports, call.parsed_input, addresses.client_address_key(call)
    )
    return _success_reply()


@endpoint(
    "POST",
    "/auth/reset-password",
    SignedOutAccess(),
    operation_id="resetPassword",
    summary="Set a password with the token of a mail",
    description="The token works once, for {reset_lifetime}. All sessions end; API keys and the "
    "calendar feed stay.",
    body=ResetPassword,
    response_schema=_SUCCESS_SCHEMA,
    rule_codes=("token_invalid",),
)
async def reset_password(call: Call) -> Reply:
    await accounts.reset_password(call.ports, call.parsed_input)
    return _success_reply()


# Sessions -------------------------------------------------------------------------------


@endpoint(
    "GET",
    "/auth/sessions",
    SessionAccess(),
    operation_id="listSessions",
    summary="List your sessions",
    description="The newest first.",
    response_schema=reply_schema("SessionList", sessions=list[SessionRecord]),
)
async def list_sessions(call: Call) -> Reply:
    found = await accounts.list_sessions(call.ports, call.user)
    records = [session_record(session, call.signed_in.session) for session in found]
    return Reply(200, codec.encode({"sessions": records}))


async def _check_session(call: Call) -> Reply:
    await accounts.get_session(call.ports, call.user, call.params[0])
    return Reply(200)


@endpoint(
    "DELETE",
    "/auth/sessions/{id}",
    SessionAccess(),
    operation_id="endSession",
    summary="End one of your sessions",
    check_target=_check_session,
    response_schema=_SUCCESS_SCHEMA,
    not_found_name="Session",
)
async def end_session(call: Call) -> Reply:
    await accounts.end_session(call.ports, call.user, call.params[0])
    return _success_reply()


@endpoint(
    "DELETE",
    "/auth/sessions",
    SessionAccess(),
    operation_id="endOtherSessions",
    summary="End all your other sessions",
    response_schema=_SUCCESS_SCHEMA,
)
async def end_other_sessions(call: Call) -> Reply:
    await accounts.end_other_sessions(call.ports, call.signed_in.session)
    return _success_reply()


# The address ----------------------------------------------------------------------------


@endpoint(
    "POST",
    "/auth/verification",
    SessionAccess(),
    operation_id="sendVerification",
    summary="Send the confirmation link of your address again",
    description="At most {verification_limit} times {verification_rate}, and "
    "{verification_address_limit} times from an address.",
    response_schema=_SUCCESS_SCHEMA,
    rule_codes=("already_verified",),
)
async def send_verification(call: Call) -> Reply:
    await accounts.send_verification(call.ports, call.user, addresses.client_address_key(call))
    return _success_reply()


@endpoint(
    "POST",
    "/auth/verify-email",
    SignedOutAccess(),
    operation_id="verifyEmail",
    summary="Confirm your address with the token of a mail",
    description="The token works once, for {verification_lifetime}.",
    body=VerifyEmail,
    response_schema=reply_schema("UserReply", success=Success, user=UserRecord),
    rule_codes=("token_invalid",),
)
async def verify_email(call: Call) -> Reply:
    user = await accounts.verify_email(call.ports, call.parsed_input.token)
    return Reply(200, codec.encode({"success": True, "user": user_record(user)}))


# Notifications --------------------------------------------------------------------------


def _choices_reply(chosen: dict[NotificationKind, bool]) -> Reply:
    record = notification_preferences_record(chosen)
    return Reply(200, codec.encode({"notifications": record}))


@endpoint(
    "GET",
    "/account/notifications",
    SessionAccess(),
    operation_id="getNotificationPreferences",
    summary="Read which optional mails you get",
    response_schema=_CHOICES_SCHEMA,
)
async def read_notification_choices(call: Call) -> Reply:
    return _choices_reply(await notifications.get_preferences(call.ports, call.user.id))


@endpoint(
    "PUT",
    "/account/notifications",
    SessionAccess(),
    operation_id="setNotificationPreferences",
    summary="Choose which optional mails you get",
    description="Absent fields keep their values.",
    body=ChangeNotificationPreferences,
    response_schema=_CHOICES_SCHEMA,
)
async def choose_notifications(call: Call) -> Reply:
    given = asdict(call.parsed_input.notifications)
    wanted = {NotificationKind(kind): on for kind, on in given.items() if on is not None}
    return _choices_reply(await notifications.set_preferences(call.ports, call.user.id, wanted))


# Personal data --------------------------------------------------------------------------


@endpoint(
    "GET",
    "/account/export",
    SessionAccess(),
    operation_id="exportAccount",
    summary="Export all data kept about you",
    description="The records of the other endpoints; a profile that does not exist is null. "
    "It has no secrets. The response is streamed: an interrupted one is not valid JSON. "
    "At most {export_limit} times {export_rate}.",
    additional_rate_limit_name="export",
    response_schema=type_schema(PersonalDataRecord),
)
async def export_data(call: Call) -> Reply:
    return Reply(
        200,
        body_stream=codec.iterate_json(await privacy.export_user_data(call.ports, call.user.id)),
    )


@endpoint(
    "POST",
    "/account/erase",
    SessionAccess(),
    operation_id="eraseAccount",
    summary="Erase your account",
    description="Names, addresses, messages, profile, images, keys and sessions are erased "
    "permanently. Bookings stay, without a name. Wrong passwords count as failed logins.",
    body=EraseAccount,
    response_schema=_SUCCESS_SCHEMA,
    rule_codes=("bad_credentials", "open_bookings"),
)
async def erase_account(call: Call) -> Reply:
    password, address = call.parsed_input.password, addresses.client_address_key(call)
    await privacy.erase_own_account(call.ports, call.user.id, password, address)
    return _success_reply()


# The contact form -----------------------------------------------------------------------


@endpoint(
    "POST",
    "/contact",
    SignedOutAccess(),
    operation_id="sendInquiry",
    summary="Send an inquiry to the operators",
    body=SubmitInquiry,
    status=201,
    additional_rate_limit_name="contact",
    response_schema=_SUCCESS_SCHEMA,
)
async def send_inquiry(call: Call) -> Reply:
    await inquiries.submit_inquiry(call.ports, call.parsed_input)
    return _success_reply(201)
