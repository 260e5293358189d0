"""Events of the payment processor: taken as they come, believed by their signature alone."""

from staffbooking_adapters import codec
from staffbooking_core.errors import NotFound
from staffbooking_core.usecases.payments import reconciliation
from staffbooking_http.api.access import Unguarded
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.response_schemas import WHOLE, shape

MOST_BYTES = 256 * 1024


async def _find(call: Call) -> Reply:
    if call.params[0] != call.ports.payments.name:
        raise NotFound("Processor")
    return Reply(200)


@endpoint(
    "POST",
    "/processor/{provider}/webhook",
    Unguarded(),
    summary="Take an event of the payment processor",
    description=(
        "For the processor that the deployment pays by. `received` says how much of it was new; "
        "an answer of 200 means that it is stored. It is signed over its raw body."
    ),
    raw=MOST_BYTES,
    find=_find,
    answer=shape({"received": WHOLE}),
    codes=("bad_signature",),
    not_found="Processor",
)
async def receive(call: Call) -> Reply:
    await _find(call)
    received = await reconciliation.receive(call.ports, _headers(call), call.given)
    return Reply(200, codec.encode({"received": received}))


def _headers(call: Call) -> dict[str, str]:
    """By their names in lower case, byte for byte; what came twice is a list, as HTTP has it."""
    texts: dict[str, str] = {}
    for raw_name, raw_value in call.scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        texts[name] = f"{texts[name]}, {value}" if name in texts else value
    return texts
