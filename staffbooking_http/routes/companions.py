"""Finding companions (SPECIFICATION 4.2 to 4.4). Answers are spliced from ready-made bytes."""

from staffbooking_adapters import codec
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.usecases.companions import search as companions_search
from staffbooking_http.api.access import WithKey
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.query_string import ReadAvailability, SearchCompanions
from staffbooking_http.api.response_schemas import DATE, FLAG, ID, TEXT, WHOLE, items, ref, shape

_SEARCH_END = {
    more: b'],"page":%%d,"limit":%%d,"has_more":%s}' % more for more in (b"false", b"true")
}


@endpoint(
    "GET",
    "/api/v1/companions",
    WithKey(Permission.READ),
    summary="Search available staff members",
    description="By rating, then number of reviews, then id. All filters given must hold.",
    query=SearchCompanions,
    answer=shape(
        {"companions": items(ref("Companion")), "page": WHOLE, "limit": WHOLE, "has_more": FLAG}
    ),
)
async def search(call: Call) -> Reply:
    query = call.given.to_core(call.ports.policy.currency)
    rows = await companions_search.search(call.ports, query)
    page, limit = query.page, query.limit
    more = b"true" if len(rows) > limit else b"false"
    end = _SEARCH_END[more] % (page, limit)
    return Reply(200, b'{"companions":[' + b",".join(rows[:limit]) + end)


async def _find(call: Call) -> Reply:
    return Reply(200, await companions_search.detail(call.ports, call.path_id("Companion")))


@endpoint(
    "GET",
    "/api/v1/companions/{id}",
    WithKey(Permission.READ),
    summary="Read the profile of a staff member",
    answer=shape({"companion": ref("CompanionDetail")}),
    not_found="Companion",
)
async def detail(call: Call) -> Reply:
    return await _find(call)


@endpoint(
    "GET",
    "/api/v1/companions/{id}/availability",
    WithKey(Permission.READ),
    summary="Read the free slots of a staff member",
    description="Local days of the companion's timezone, both ends included, at most 92.",
    query=ReadAvailability,
    find=_find,
    answer=shape(
        {
            "companion_id": ID,
            "timezone": TEXT,
            "start_date": DATE,
            "end_date": DATE,
            "availability": items(ref("Day")),
        }
    ),
    not_found="Companion",
)
async def availability(call: Call) -> Reply:
    wanted: ReadAvailability = call.given
    companion_id = call.path_id("Companion")
    record = await companions_search.availability(
        call.ports, companion_id, wanted.start_date, wanted.end_date
    )
    return Reply(200, codec.encode(record))


@endpoint(
    "GET",
    "/api/v1/service-types",
    WithKey(Permission.READ),
    summary="List the service types on offer",
    answer=shape({"service_types": items(shape({"name": TEXT, "companions": WHOLE}))}),
)
async def service_types(call: Call) -> Reply:
    found = await companions_search.service_types(call.ports)
    rows = [{"name": name, "companions": number} for name, number in found]
    return Reply(200, codec.encode({"service_types": rows}))
