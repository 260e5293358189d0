"""A staff member's own profile, working hours and portfolio (CONTRACT 3)."""

from staffbooking_adapters import codec
from staffbooking_core.inputs import AddPortfolioItem, ChangeProfile, SetAvailability
from staffbooking_core.representations.calendars import AvailabilityRecord, availability_record
from staffbooking_core.representations.companions import (
    OwnPortfolioItemRecord,
    ProfileRecord,
    own_portfolio_record,
    profile_record,
)
from staffbooking_core.representations.json_types import Success
from staffbooking_core.usecases.companions import profiles
from staffbooking_http.api.access import SessionAccess, require_staff
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.response_schemas import (
    reply_schema,
)

_STAFF_SESSION = SessionAccess(check_user=require_staff)
_RESOURCE_NAME = "Portfolio item"

# Profile --------------------------------------------------------------------------------


@endpoint(
    "GET",
    "/staff/profile",
    _STAFF_SESSION,
    operation_id="getOwnProfile",
    summary="Read your profile",
    description="`missing` lists the fields that approval still requires.",
    response_schema=reply_schema("OwnProfile", profile=ProfileRecord),
    rule_codes=("staff_only",),
)
async def read_profile(call: Call) -> Reply:
    companion = await profiles.get_profile(call.ports, call.actor)
    record = profile_record(companion, call.ports.policy.currency)
    return Reply(200, codec.encode({"profile": record}))


@endpoint(
    "PUT",
    "/staff/profile",
    _STAFF_SESSION,
    operation_id="updateOwnProfile",
    summary="Change your profile",
    description=(
        "Absent fields keep their values. An operator approves a new profile; later changes "
        "keep the approval. An image under `media/` must be one that you uploaded."
    ),
    body=ChangeProfile,
    response_schema=reply_schema("ProfileReply", success=Success, profile=ProfileRecord),
    rule_codes=("staff_only",),
)
async def change_profile(call: Call) -> Reply:
    companion = await profiles.update_profile(call.ports, call.actor, call.parsed_input)
    record = profile_record(companion, call.ports.policy.currency)
    return Reply(200, codec.encode({"success": True, "profile": record}))


# Hours ----------------------------------------------------------------------------------


@endpoint(
    "GET",
    "/staff/availability",
    _STAFF_SESSION,
    operation_id="getOwnAvailability",
    summary="Read the hours that you set",
    description="The hours as set, without bookings. No weekly hours at all mean free all day.",
    response_schema=reply_schema("OwnAvailability", availability=AvailabilityRecord),
    rule_codes=("staff_only",),
)
async def read_availability(call: Call) -> Reply:
    companion = await profiles.get_profile(call.ports, call.actor)
    record = availability_record(companion.calendar)
    return Reply(200, codec.encode({"availability": record}))


@endpoint(
    "PUT",
    "/staff/availability",
    _STAFF_SESSION,
    operation_id="setOwnAvailability",
    summary="Replace the hours that you set",
    description=(
        "Local times of the timezone. An override replaces the weekly hours of its date; "
        "without slots it is a day off. Absent fields keep their values; bookings stay. "
        "Buffer, notice and horizon limit what can be requested."
    ),
    body=SetAvailability,
    response_schema=reply_schema(
        "AvailabilityReply", success=Success, availability=AvailabilityRecord
    ),
    rule_codes=("staff_only",),
)
async def set_availability(call: Call) -> Reply:
    calendar = await profiles.set_availability(call.ports, call.actor, call.parsed_input)
    answer = {"success": True, "availability": availability_record(calendar)}
    return Reply(200, codec.encode(answer))


# Portfolio ------------------------------------------------------------------------------


@endpoint(
    "GET",
    "/staff/portfolio",
    _STAFF_SESSION,
    operation_id="listOwnPortfolio",
    summary="List your portfolio",
    description="In your order, by default the newest first. Others see approved items only.",
    response_schema=reply_schema("Portfolio", items=list[OwnPortfolioItemRecord]),
    rule_codes=("staff_only",),
)
async def list_portfolio(call: Call) -> Reply:
    found = await profiles.list_portfolio_items(call.ports, call.actor)
    return Reply(200, codec.encode({"items": [own_portfolio_record(item) for item in found]}))


@endpoint(
    "POST",
    "/staff/portfolio",
    _STAFF_SESSION,
    operation_id="addPortfolioItem",
    summary="Add an item to your portfolio",
    description="An operator must approve it. A portfolio has at most {max_portfolio_items} items.",
    body=AddPortfolioItem,
    status=201,
    response_schema=reply_schema(
        "PortfolioItemReply", success=Success, item=OwnPortfolioItemRecord
    ),
    rule_codes=("too_many_portfolio_items", "staff_only"),
)
async def add_item(call: Call) -> Reply:
    item = await profiles.add_portfolio_item(call.ports, call.actor, call.parsed_input)
    return Reply(201, codec.encode({"success": True, "item": own_portfolio_record(item)}))


async def _check_item(call: Call) -> Reply:
    await profiles.get_portfolio_item(call.ports, call.actor, call.path_id(_RESOURCE_NAME))
    return Reply(200)


@endpoint(
    "DELETE",
    "/staff/portfolio/{id}",
    _STAFF_SESSION,
    operation_id="removePortfolioItem",
    summary="Remove an item from your portfolio",
    check_target=_check_item,
    response_schema=reply_schema("Success", success=Success),
    rule_codes=("staff_only",),
    not_found_name=_RESOURCE_NAME,
)
async def remove_item(call: Call) -> Reply:
    await profiles.remove_portfolio_item(call.ports, call.actor, call.path_id(_RESOURCE_NAME))
    return Reply(200, codec.encode({"success": True}))
