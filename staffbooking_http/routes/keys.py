"""API keys (SPECIFICATION 4.1, CONTRACT 2)."""

from typing import Annotated

from staffbooking_adapters import codec
from staffbooking_core.inputs import CreateApiKey
from staffbooking_core.representations.accounts import ApiKeyRecord, api_key_record
from staffbooking_core.representations.json_types import JsonSchema, Success
from staffbooking_core.usecases.accounts import api_keys
from staffbooking_http.api.access import SessionAccess
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.response_schemas import (
    reply_schema,
)
from staffbooking_http.api.security_log import log_security_event


@endpoint(
    "POST",
    "/api/keys",
    SessionAccess(check_user=api_keys.check_subscription),
    operation_id="createApiKey",
    summary="Create an API key",
    shows_secret=True,
    description="The key itself is shown only in this response. An account has at most "
    "{max_active_keys} active ones.",
    body=CreateApiKey,
    status=201,
    response_schema=reply_schema(
        "NewApiKey",
        success=Success,
        key=Annotated[
            str, JsonSchema(pattern="^ps_[0-9A-Za-z]{65}$", examples=[f"ps_{'7Q2m4' * 13}"])
        ],
        api_key=ApiKeyRecord,
    ),
    rule_codes=("too_many_keys", "subscription_required"),
)
async def create_key(call: Call) -> Reply:
    key, record = await api_keys.create(call.ports, call.user, call.parsed_input)
    log_security_event(call, "api_key_created", user_id=call.user.id, key_id=record.id)
    answer = {"success": True, "key": key, "api_key": api_key_record(record)}
    return Reply(201, codec.encode(answer))


@endpoint(
    "GET",
    "/api/keys",
    SessionAccess(),
    operation_id="listApiKeys",
    summary="List your API keys, masked",
    response_schema=reply_schema("ApiKeyList", keys=list[ApiKeyRecord]),
)
async def list_keys(call: Call) -> Reply:
    found = await api_keys.list_keys(call.ports, call.user)
    return Reply(200, codec.encode({"keys": [api_key_record(key) for key in found]}))


async def _check_key(call: Call) -> Reply:
    await api_keys.get_key(call.ports, call.user, call.path_id("API key"))
    return Reply(200)


@endpoint(
    "DELETE",
    "/api/keys/{id}",
    SessionAccess(),
    operation_id="revokeApiKey",
    summary="Revoke an API key",
    check_target=_check_key,
    response_schema=reply_schema("Success", success=Success),
    not_found_name="API key",
)
async def revoke_key(call: Call) -> Reply:
    key_id = call.path_id("API key")
    await api_keys.revoke(call.ports, call.user, key_id)
    log_security_event(call, "api_key_revoked", user_id=call.user.id, key_id=key_id)
    return Reply(200, codec.encode({"success": True}))
