"""Finding companions (SPECIFICATION 4.2 to 4.4). Summaries and details are pre-encoded."""

from staffbooking_adapters import codec
from staffbooking_adapters.codec import RawJson
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.representations.calendars import FreeDaysRecord
from staffbooking_core.representations.companions import (
    CompanionDetailReply,
    CompanionRecord,
    ServiceTypeRecord,
    service_type_record,
)
from staffbooking_core.usecases.companions import search as companions_search
from staffbooking_http.api.access import ApiKeyAccess
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.query_string import ReadAvailability, SearchCompanions
from staffbooking_http.api.response_schemas import (
    reply_schema,
    type_schema,
)


@endpoint(
    "GET",
    "/api/v1/companions",
    ApiKeyAccess(Permission.READ),
    operation_id="searchCompanions",
    summary="Search available staff members",
    description="Ordered by rating, number of reviews, and id. Results match all given filters: "
    "`location` a part of the city or country, without case and accents; `date` an hour of that "
    "local day that can be booked now.",
    query=SearchCompanions,
    response_schema=reply_schema(
        "CompanionPage", companions=list[CompanionRecord], page=int, limit=int, has_more=bool
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
    operation_id="getCompanion",
    summary="Read the profile of a staff member",
    response_schema=type_schema(CompanionDetailReply),
    not_found_name="Companion",
)
async def read_companion(call: Call) -> Reply:
    return await _companion_reply(call)


@endpoint(
    "GET",
    "/api/v1/companions/{id}/availability",
    ApiKeyAccess(Permission.READ),
    operation_id="getAvailability",
    summary="Read the free slots of a staff member",
    description="Local days of the companion's timezone, both ends included, at most "
    "{availability_days}. Only what can be booked now is free: ahead of now, within the notice "
    "and horizon of the staff member, and outside the buffers of bookings.",
    query=ReadAvailability,
    check_target=_companion_reply,
    response_schema=type_schema(FreeDaysRecord),
    not_found_name="Companion",
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
    operation_id="listServiceTypes",
    summary="List the service types on offer",
    response_schema=reply_schema("ServiceTypeList", service_types=list[ServiceTypeRecord]),
)
async def list_service_types(call: Call) -> Reply:
    found = await companions_search.count_service_types(call.ports)
    rows = [service_type_record(name, number) for name, number in found]
    return Reply(200, codec.encode({"service_types": rows}))
