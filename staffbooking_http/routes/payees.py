"""Payout accounts of staff members (CONTRACT 3)."""

from staffbooking_adapters import codec
from staffbooking_core.domain.payments.payees import Payee, PayeeStatus
from staffbooking_core.inputs import OpenPayoutAccount
from staffbooking_core.representations.json_types import Success, Timestamp, format_instant
from staffbooking_core.representations.payments import PayoutAccountRecord
from staffbooking_core.usecases.payments import payees
from staffbooking_http.api.access import SessionAccess, require_staff
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.response_schemas import (
    reply_schema,
)


def _payout_account_record(call: Call, payee: Payee | None) -> PayoutAccountRecord:
    """Return the state of the account; `message` is the reason of a refusal."""
    status = PayeeStatus.NONE if payee is None else payee.status
    return {
        "status": status,
        "provider": call.ports.payments.name,
        "country": payee.command.country if payee else None,
        "needs": list(payee.needs) if payee else [],
        "message": payees.REFUSED_MESSAGE if status is PayeeStatus.REFUSED else None,
    }


@endpoint(
    "GET",
    "/staff/payout-account",
    SessionAccess(check_user=require_staff),
    operation_id="getPayoutAccount",
    summary="Read the status of your payout account",
    description="`needs` lists what the payment processor still requires.",
    response_schema=reply_schema("OwnPayoutAccount", payout_account=PayoutAccountRecord),
    rule_codes=("staff_only",),
)
async def read_payout_account(call: Call) -> Reply:
    payee = await payees.get_payee(call.ports, call.actor)
    return Reply(200, codec.encode({"payout_account": _payout_account_record(call, payee)}))


@endpoint(
    "POST",
    "/staff/payout-account",
    SessionAccess(check_user=require_staff),
    operation_id="openPayoutAccount",
    summary="Open or continue your payout account",
    calls_services=True,
    shows_secret=True,
    description=(
        "`onboarding_url` is a page of the payment processor for a single visit; call again for "
        "another. 500 `processor_unavailable` if the processor is unavailable; safe to repeat."
    ),
    body=OpenPayoutAccount,
    is_body_optional=True,
    response_schema=reply_schema(
        "PayoutAccountReply",
        success=Success,
        payout_account=PayoutAccountRecord,
        onboarding_url=str,
        expires_at=Timestamp,
    ),
    rule_codes=("payout_account_refused", "staff_only"),
)
async def open_payout_account(call: Call) -> Reply:
    payee, link = await payees.open_onboarding(call.ports, call.actor, call.parsed_input.country)
    answer = {
        "success": True,
        "payout_account": _payout_account_record(call, payee),
        "onboarding_url": link.url,
        "expires_at": format_instant(link.expires_at),
    }
    return Reply(200, codec.encode(answer))
