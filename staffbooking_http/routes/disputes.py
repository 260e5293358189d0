"""Disputes of bookings: the conversation of the parties, with its files (CONTRACT 10)."""

from staffbooking_adapters import codec
from staffbooking_core.domain.bookings.disputes import DisputeFile, DisputeFileKind
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.inputs import AddDisputeStatement
from staffbooking_core.representations.disputes import DisputeRecord, dispute_record
from staffbooking_core.representations.json_types import Success
from staffbooking_core.usecases.bookings import dispute_files, disputes
from staffbooking_core.usecases.bookings.disputes import DisputeConversation
from staffbooking_http.api.access import SessionAccess
from staffbooking_http.api.endpoint import Call, Header, Reply, endpoint
from staffbooking_http.api.preconditions import allowed_versions
from staffbooking_http.api.response_schemas import reply_schema

_RESOURCE_NAME = "Booking"
_DISPUTE_REPLY_SCHEMA = reply_schema("DisputeReply", success=Success, dispute=DisputeRecord)
_FILES_DESCRIPTION = "`files` are ids of files that you uploaded for this booking."


def _record(found: DisputeConversation) -> DisputeRecord:
    currency = Currency(found.booking.currency)
    return dispute_record(found.dispute, found.statements, currency)


def _dispute_reply(found: DisputeConversation, status: int = 200) -> Reply:
    return Reply(status, codec.encode({"success": True, "dispute": _record(found)}))


@endpoint(
    "GET",
    "/bookings/{id}/dispute",
    SessionAccess(),
    operation_id="getDispute",
    summary="Read the newest dispute of a booking",
    description=(
        "For both parties, whoever booked it, and admins. A chargeback counts as opened by the "
        "customer. After `respond_by` the operators are alerted; nothing is resolved by itself."
    ),
    response_schema=reply_schema("NewestDispute", dispute=DisputeRecord),
    not_found_name="Dispute",
)
async def read_dispute(call: Call) -> Reply:
    found = await disputes.get_dispute(call.ports, call.actor, call.path_id(_RESOURCE_NAME))
    return Reply(200, codec.encode({"dispute": _record(found)}))


async def _check_party(call: Call) -> Reply:
    """Only authorize the call, for calls that are otherwise invalid."""
    await disputes.authorize_party(call.ports, call.actor, call.path_id(_RESOURCE_NAME))
    return Reply(200)


@endpoint(
    "POST",
    "/bookings/{id}/dispute/statements",
    SessionAccess(),
    operation_id="addDisputeStatement",
    summary="Make a statement in the open dispute",
    description=(
        "By either party, at most {max_dispute_statements} in a dispute. The other party gets a "
        f"mail. {_FILES_DESCRIPTION}"
    ),
    body=AddDisputeStatement,
    check_target=_check_party,
    status=201,
    response_schema=_DISPUTE_REPLY_SCHEMA,
    rule_codes=("wrong_party", "booking_not_disputed", "too_many_statements"),
    not_found_name=_RESOURCE_NAME,
)
async def add_statement(call: Call) -> Reply:
    found = await disputes.add_statement(
        call.ports, call.actor, call.path_id(_RESOURCE_NAME), call.parsed_input
    )
    return _dispute_reply(found, 201)


@endpoint(
    "POST",
    "/bookings/{id}/dispute/withdraw",
    SessionAccess(),
    operation_id="withdrawDispute",
    summary="Withdraw the dispute that you opened",
    description=(
        "The booking becomes paid or completed, as it was before; what came due meanwhile is done "
        "next."
    ),
    is_versioned=True,
    check_target=_check_party,
    response_schema=_DISPUTE_REPLY_SCHEMA,
    rule_codes=("wrong_party", "booking_not_disputed", "chargeback_open", "rebooking_used"),
    not_found_name=_RESOURCE_NAME,
)
async def withdraw_dispute(call: Call) -> Reply:
    booking_id, versions = call.path_id(_RESOURCE_NAME), allowed_versions(call)
    found = await disputes.withdraw_dispute(call.ports, call.actor, booking_id, versions)
    return _dispute_reply(found)


@endpoint(
    "POST",
    "/bookings/{id}/dispute/files",
    SessionAccess(),
    operation_id="uploadDisputeFile",
    summary="Upload a file for a dispute",
    description=(
        "Also before the dispute, once the booking is paid; at most {max_dispute_files} files of "
        "each party. JPEG, PNG and WebP images are re-encoded as for `/staff/images`. A PDF must "
        "be whole, and have no encryption, scripts, programs, XFA forms or files inside."
    ),
    has_file=True,
    file_types="JPEG, PNG, WebP or PDF",
    is_upload_limited=True,
    check_target=_check_party,
    status=201,
    response_schema=reply_schema("NewDisputeFile", success=Success, file=str),
    rule_codes=("malformed_form", "wrong_party", "booking_not_disputable", "too_many_files"),
    not_found_name=_RESOURCE_NAME,
)
async def upload_file(call: Call) -> Reply:
    file = await dispute_files.upload_file(
        call.ports,
        call.actor,
        call.path_id(_RESOURCE_NAME),
        call.parsed_input.content,
        call.parsed_input.media,
    )
    return Reply(201, codec.encode({"success": True, "file": file.id}))


@endpoint(
    "GET",
    "/bookings/{id}/dispute/files/{file}",
    SessionAccess(),
    operation_id="getDisputeFile",
    summary="Read a file of a dispute",
    description="For both parties, whoever booked it, and admins. Never cached.",
    response_schema={"description": "JPEG, PNG, WebP or PDF"},
    response_media_type="*/*",
    not_found_name="File",
)
async def read_file(call: Call) -> Reply:
    content, file = await dispute_files.get_file(
        call.ports, call.actor, call.path_id(_RESOURCE_NAME), call.params[1]
    )
    return Reply(200, content, _file_headers(file), file.kind.value.encode())


def _file_headers(file: DisputeFile) -> tuple[Header, ...]:
    """Images are shown, PDFs are saved; browsers run and load nothing."""
    use = b"attachment" if file.kind is DisputeFileKind.PDF else b"inline"
    return (
        (b"content-disposition", b'%s; filename="file.%s"' % (use, file.kind.suffix.encode())),
        (b"content-security-policy", b"default-src 'none'; sandbox"),
    )
