"""API keys (SPECIFICATION 4.1, CONTRACT 2)."""

from staffbooking_adapters import codec
from staffbooking_core.inputs import CreateKey
from staffbooking_core.representations.records import key_record
from staffbooking_core.usecases.accounts import api_keys
from staffbooking_http.api.access import WithSession
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.response_schemas import SUCCESS, items, ref, shape


@endpoint(
    "POST",
    "/api/keys",
    WithSession(permit=api_keys.check_subscription),
    summary="Create an API key",
    description="The key itself is shown this once. An account has at most 5 active ones.",
    body=CreateKey,
    status=201,
    answer=shape(
        {
            "success": SUCCESS,
            "key": {"type": "string", "pattern": "^ps_[0-9A-Za-z]{65}$"},
            "api_key": ref("ApiKey"),
        }
    ),
    codes=("too_many_keys", "subscription_required"),
)
async def create(call: Call) -> Reply:
    key, record = await api_keys.create(call.ports, call.user, call.given)
    answer = {"success": True, "key": key, "api_key": key_record(record)}
    return Reply(201, codec.encode(answer))


@endpoint(
    "GET",
    "/api/keys",
    WithSession(),
    summary="List your API keys, masked",
    answer=shape({"keys": items(ref("ApiKey"))}),
)
async def listing(call: Call) -> Reply:
    found = await api_keys.listing(call.ports, call.user)
    return Reply(200, codec.encode({"keys": [key_record(key) for key in found]}))


@endpoint(
    "DELETE",
    "/api/keys/{id}",
    WithSession(),
    summary="Revoke an API key",
    answer=shape({"success": SUCCESS}),
    not_found="API key",
)
async def revoke(call: Call) -> Reply:
    await api_keys.revoke(call.ports, call.user, call.path_id("API key"))
    return Reply(200, codec.encode({"success": True}))
