"""Finding companions (SPECIFICATION 4.2 to 4.4). Summaries and details are ready-made bytes."""

from staffbooking_adapters import codec
from staffbooking_adapters.codec import RawJson
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.usecases.companions import search as companions_search
from staffbooking_http.api.access import ApiKeyAccess
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.query_string import ReadAvailability, SearchCompanions
from staffbooking_http.api.response_schemas import (
    BOOLEAN,
    DATE,
    ID,
    INTEGER,
    STRING,
    array_schema,
    object_schema,
    schema_ref,
)


@endpoint(
    "GET",
    "/api/v1/companions",
    ApiKeyAccess(Permission.READ),
    summary="Search available staff members",
    description="By rating, then number of reviews, then id. All filters given must hold.",
    query=SearchCompanions,
    answer=object_schema(
        {
            "companions": array_schema(schema_ref("Companion")),
            "page": INTEGER,
            "limit": INTEGER,
            "has_more": BOOLEAN,
        }
    ),
)
async def search_companions(call: Call) -> Reply:
    query = call.parsed_input.to_core(call.ports.policy.currency)
    rows = await companions_search.search(call.ports, query)
    page, limit = query.page, query.limit
    answer = {
        "companions": [*map(RawJson, rows[:limit])],
        "page": page,
        "limit": limit,
        "has_more": len(rows) > limit,
    }
    return Reply(200, codec.encode(answer))


async def _companion_reply(call: Call) -> Reply:
    return Reply(200, await companions_search.get_detail(call.ports, call.path_id("Companion")))


@endpoint(
    "GET",
    "/api/v1/companions/{id}",
    ApiKeyAccess(Permission.READ),
    summary="Read the profile of a staff member",
    answer=object_schema({"companion": schema_ref("CompanionDetail")}),
    not_found="Companion",
)
async def read_companion(call: Call) -> Reply:
    return await _companion_reply(call)


@endpoint(
    "GET",
    "/api/v1/companions/{id}/availability",
    ApiKeyAccess(Permission.READ),
    summary="Read the free slots of a staff member",
    description="Local days of the companion's timezone, both ends included, at most 92.",
    query=ReadAvailability,
    find=_companion_reply,
    answer=object_schema(
        {
            "companion_id": ID,
            "timezone": STRING,
            "start_date": DATE,
            "end_date": DATE,
            "availability": array_schema(schema_ref("Day")),
        }
    ),
    not_found="Companion",
)
async def read_availability(call: Call) -> Reply:
    wanted: ReadAvailability = call.parsed_input
    companion_id = call.path_id("Companion")
    record = await companions_search.get_availability(
        call.ports, companion_id, wanted.start_date, wanted.end_date
    )
    return Reply(200, codec.encode(record))


@endpoint(
    "GET",
    "/api/v1/service-types",
    ApiKeyAccess(Permission.READ),
    summary="List the service types on offer",
    answer=object_schema(
        {"service_types": array_schema(object_schema({"name": STRING, "companions": INTEGER}))}
    ),
)
async def list_service_types(call: Call) -> Reply:
    found = await companions_search.count_service_types(call.ports)
    rows = [{"name": name, "companions": number} for name, number in found]
    return Reply(200, codec.encode({"service_types": rows}))
