"""Events of the payment processor, authenticated only by their signature."""

from staffbooking_adapters import codec
from staffbooking_core.errors import NotFound
from staffbooking_core.usecases.payments import reconciliation
from staffbooking_http.api.access import PublicAccess
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.response_schemas import reply_schema

MAX_PROCESSOR_EVENT_BYTES = 256 * 1024


async def _check_provider(call: Call) -> Reply:
    if call.params[0] != call.ports.payments.name:
        raise NotFound("Processor")
    return Reply(200)


@endpoint(
    "POST",
    "/processor/{provider}/webhook",
    PublicAccess(),
    operation_id="receiveProcessorEvent",
    summary="Receive an event of the payment processor",
    description=(
        "For the deployment's payment processor. `received` is the number of new events; "
        "200 means that they are stored. The signature covers the raw body."
    ),
    max_raw_bytes=MAX_PROCESSOR_EVENT_BYTES,
    check_target=_check_provider,
    response_schema=reply_schema("ReceivedEvents", received=int),
    rule_codes=("bad_signature",),
    not_found_name="Processor",
)
async def receive_processor_event(call: Call) -> Reply:
    await _check_provider(call)
    received = await reconciliation.receive_webhook(
        call.ports, _decode_headers(call), call.parsed_input
    )
    return Reply(200, codec.encode({"received": received}))


def _decode_headers(call: Call) -> dict[str, str]:
    """Decode the headers as Latin-1. Values of repeated headers are joined with commas."""
    texts: dict[str, str] = {}
    for raw_name, raw_value in call.scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        texts[name] = f"{texts[name]}, {value}" if name in texts else value
    return texts
