"""Profile and hours of staff members over HTTP (CONTRACT 3)."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest

from staffbooking_adapters.testing.builders import add_user
from staffbooking_adapters.testing.builders_portfolio import add_uploaded_image
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.usecases.accounts import administration
from staffbooking_core.usecases.bookings import disabling
from staffbooking_core.usecases.companions import approvals
from staffbooking_http.docs.references import plain_schema
from tests.http.deployment import TEST_PASSWORD, HttpDeployment, error_body, error_fields, json_body
from tests.http.docs.openapi_validation import document_of

pytestmark = pytest.mark.anyio

PROFILE, HOURS = "/staff/profile", "/staff/availability"
COMPLETE: dict[str, Any] = {
    "tagline": "Calm in every rush",
    "bio": "Ten years\nbehind bars.",
    "profile_photo": "photos/maja.jpg",
    "hourly_rate": 40.5,
    "daily_rate": 300,
    "location_city": "Zürich",
    "location_country": "Switzerland",
    "service_types": ["Bartender", "Host"],
    "languages": ["German", "English"],
    "years_experience": 10,
    "timezone": "Europe/Zurich",
}
OFFICE = [{"weekday": day, "start": "09:00", "end": "17:00"} for day in range(5)]


async def newcomer(world: HttpDeployment) -> tuple[httpx.AsyncClient, int]:
    """The browser of a staff member who has just registered, and their id."""
    user = await add_user(
        world.store, role=Role.STAFF, first_name="Maja", last_name="Lind", email="maja@example.com"
    )
    return await world.signed_in_client(user.id), user.id


async def change(client: httpx.AsyncClient, **given: Any) -> dict[str, Any]:
    """Change the client's profile; returns the changed profile."""
    answer = json_body(await client.put(PROFILE, json=given))
    assert answer["success"] is True
    changed: dict[str, Any] = answer["profile"]
    return changed


# Profile --------------------------------------------------------------------------------


async def test_a_newcomers_profile_is_a_draft(each_world: HttpDeployment) -> None:
    """A new staff member's profile lists the missing fields, and its rates are null."""
    client, number = await newcomer(each_world)
    assert json_body(await client.get(PROFILE)) == {
        "profile": {
            "id": number,
            "first_name": "Maja",
            "last_name": "Lind",
            "tagline": "",
            "bio": "",
            "profile_photo": "",
            "hourly_rate": None,
            "daily_rate": None,
            "location_city": "",
            "location_country": "",
            "service_types": [],
            "languages": [],
            "years_experience": None,
            "timezone": "UTC",
            "tier": "standard",
            "badges": [],
            "rating_avg": 0,
            "total_reviews": 0,
            "currency": "usd",
            "member_since": "2027-01-30T12:00:00Z",
            "status": "pending",
            "active": True,
            "missing": ["hourly_rate", "location_city", "location_country", "service_types"],
        }
    }


async def test_a_profile_is_filled_approved_and_kept(each_world: HttpDeployment) -> None:
    """A completed profile waits for approval, and later changes keep the approval and the other
    fields."""
    client, number = await newcomer(each_world)
    filled = await change(client, **COMPLETE)
    assert filled == {**filled, **COMPLETE, "status": "pending", "missing": []}
    assert json_body(await client.get(PROFILE)) == {"profile": filled}
    shown = f"/api/v1/companions/{number}"
    error_body(await each_world.client_with_key().get(shown), 404, "not_found")

    await approvals.set_approval(each_world.ports, number, Approval.APPROVED)
    changed = await change(client, first_name="Maia", hourly_rate=55.25)
    assert changed == {**filled, "first_name": "Maia", "hourly_rate": 55.25, "status": "approved"}
    detail = json_body(await each_world.client_with_key().get(shown))["companion"]
    assert (detail["first_name"], detail["hourly_rate"]) == ("Maia", 55.25)
    assert detail["service_types"] == "Bartender,Host"
    assert json_body(await client.get("/auth/session"))["user"]["first_name"] == "Maia"


async def test_null_empties_what_may_be_empty(world: HttpDeployment) -> None:
    """Null empties the daily rate and the years of experience, and is ignored for other fields."""
    client, _ = await newcomer(world)
    filled = await change(client, **COMPLETE)
    nulls = dict.fromkeys((*COMPLETE, "first_name", "last_name"))
    emptied = {**filled, "daily_rate": None, "years_experience": None}
    assert await change(client, **nulls) == emptied
    assert await change(client) == emptied


async def test_texts_are_emptied_by_empty_texts(world: HttpDeployment) -> None:
    """Empty values empty the tagline, bio, photo and languages."""
    client, _ = await newcomer(world)
    filled = await change(client, **COMPLETE)
    empty = {"tagline": "", "bio": "", "profile_photo": "", "languages": []}
    assert await change(client, **empty) == {**filled, **empty}


async def test_protected_fields_are_ignored(world: HttpDeployment) -> None:
    """Fields that the user may not decide, such as status and tier, are ignored."""
    client, number = await newcomer(world)
    given = {
        "id": 1,
        "status": "approved",
        "approval": "approved",
        "approved": True,
        "active": False,
        "tier": "elite",
        "badges": ["verified"],
        "rating_avg": 5,
        "rating_sum": 500,
        "total_reviews": 100,
        "member_since": "2020-01-01T00:00:00Z",
        "currency": "eur",
        "payout_account": "acct_theirs",
        "calendar": {},
    }
    before = json_body(await client.get(PROFILE))["profile"]
    assert await change(client, **given) == before
    async with world.store.read_view() as view:
        made = await view.companions.companion(number)
    assert made is not None
    assert made.payout_account is None


WRONG: dict[str, Any] = {
    "first_name": "",
    "last_name": "x" * 101,
    "tagline": "x" * 301,
    "bio": "x" * 5001,
    "profile_photo": "https://elsewhere.example/me.jpg",
    "hourly_rate": 0,
    "daily_rate": 1_000_001,
    "location_city": "  ",
    "location_country": 7,
    "service_types": [],
    "languages": ["German", "German"],
    "years_experience": 81,
    "timezone": "Europe/Atlantis",
}


async def test_every_invalid_field_is_listed(world: HttpDeployment) -> None:
    """All invalid fields are listed with 422, and nothing is stored."""
    client, number = await newcomer(world)
    answer = await client.put(PROFILE, json=WRONG)
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == set(WRONG)
    async with world.store.read_view() as view:
        assert await view.companions.companion(number) is None


@pytest.mark.parametrize(
    "given",
    [
        {"hourly_rate": "40"},
        {"hourly_rate": 40.555},
        {"daily_rate": -1},
        {"years_experience": -1},
        {"years_experience": 4.0},
        {"service_types": "Bartender"},
        {"service_types": ["x"] * 51},
        {"service_types": ["Wine, cheese"]},
        {"languages": [""]},
        {"bio": "\0"},
        {"first_name": "A\nB"},
        {"tagline": "\u202eknil"},
    ],
    ids=str,
)
async def test_a_wrong_value_names_its_field(world: HttpDeployment, given: dict[str, Any]) -> None:
    """An invalid value is 422 and names its field or element."""
    client, _ = await newcomer(world)
    answer = await client.put(PROFILE, json=given)
    error_body(answer, 422, "invalid_field")
    assert {name.partition(".")[0] for name in error_fields(answer)} == set(given)


async def test_a_photo_is_ones_own(each_world: HttpDeployment) -> None:
    """An uploaded photo must be the user's own, and another one is 422."""
    client, number = await newcomer(each_world)
    await add_uploaded_image(each_world.store, number, "mine.jpg")
    await add_uploaded_image(each_world.store, each_world.companion.id, "theirs.jpg")
    assert (await change(client, profile_photo="media/mine.jpg"))["missing"]
    for path in ("media/theirs.jpg", "media/unknown.jpg", "media/mine.jpg/x"):
        answer = await client.put(PROFILE, json={"profile_photo": path, "hourly_rate": 1.005})
        error_body(answer, 422, "invalid_field")
        assert error_fields(answer) == {"profile_photo", "hourly_rate"}
    assert json_body(await client.get(PROFILE))["profile"]["profile_photo"] == "media/mine.jpg"


async def test_concurrent_first_changes_are_all_kept(each_world: HttpDeployment) -> None:
    """Concurrent first changes of profile and hours are all kept."""
    client, _ = await newcomer(each_world)
    async with anyio.create_task_group() as tasks:
        for name in ("tagline", "bio", "location_city", "location_country"):
            tasks.start_soon(_change_one, client, name)
        tasks.start_soon(_set_hours, client)
    profile = json_body(await client.get(PROFILE))["profile"]
    assert profile["missing"] == ["hourly_rate", "service_types"]
    assert (profile["tagline"], profile["bio"]) == ("tagline", "bio")
    assert json_body(await client.get(HOURS))["availability"]["weekly"] == OFFICE


async def _change_one(client: httpx.AsyncClient, name: str) -> None:
    await change(client, **{name: name})


async def _set_hours(client: httpx.AsyncClient) -> None:
    json_body(await client.put(HOURS, json={"timezone": "UTC", "weekly": OFFICE}))


async def test_the_document_says_where_null_empties(world: HttpDeployment) -> None:
    """In the document only those two fields are nullable, and no field is required or has a
    default."""
    document = await document_of(world)
    body = document["paths"][PROFILE]["put"]["requestBody"]["content"]["application/json"]
    schema = plain_schema(document, body["schema"])
    assert "required" not in schema
    assert set(schema["properties"]) == {*COMPLETE, "first_name", "last_name"}
    nullable = [name for name, one in schema["properties"].items() if "null" in one.get("type", ())]
    assert nullable == ["daily_rate", "years_experience"]
    assert not any("default" in one for one in schema["properties"].values())


# Hours ----------------------------------------------------------------------------------


async def test_hours_are_set_and_read_before_the_profile(each_world: HttpDeployment) -> None:
    """Hours can be set without a profile, and PUT replaces only the parts that are given."""
    client, _ = await newcomer(each_world)
    limits = {"buffer_minutes": 0, "min_notice_hours": 0, "horizon_days": 1095}
    nothing = {"timezone": "UTC", "weekly": [], "overrides": [], **limits}
    assert json_body(await client.get(HOURS)) == {"availability": nothing}
    given = {
        **limits,
        "timezone": "Europe/Zurich",
        "weekly": [{"weekday": 6, "start": "20:00", "end": "24:00"}, *OFFICE],
        "overrides": [
            {"date": "2027-03-04", "slots": [{"start": "10:00", "end": "12:00"}]},
            {"date": "2027-03-03", "slots": []},
        ],
    }
    answer = json_body(await client.put(HOURS, json=given))
    assert answer == {"success": True, "availability": given}
    assert json_body(await client.get(HOURS)) == {"availability": given}
    assert json_body(await client.get(PROFILE))["profile"]["timezone"] == "Europe/Zurich"
    answer = json_body(await client.put(HOURS, json={"timezone": "UTC", "weekly": []}))
    assert answer == {"success": True, "availability": {**nothing, "overrides": given["overrides"]}}


async def test_new_hours_are_shown_and_searched(each_world: HttpDeployment) -> None:
    """New hours of a listed companion apply at once to availability and search."""
    staff = await each_world.signed_in_client(each_world.companion.id)
    program, number = each_world.client_with_key(), each_world.companion.id
    overrides = [{"date": "2027-03-03", "slots": []}]
    given = {"timezone": "UTC", "weekly": OFFICE, "overrides": overrides}
    json_body(await staff.put(HOURS, json=given))
    span = "start_date=2027-03-03&end_date=2027-03-04"
    shown = json_body(await program.get(f"/api/v1/companions/{number}/availability?{span}"))
    assert [day["slots"] for day in shown["availability"]] == [
        [],
        [{"start": "09:00", "end": "17:00"}],
    ]
    for day, found in (("2027-03-03", []), ("2027-03-04", [number]), ("2027-03-06", [])):
        page = json_body(await program.get(f"/api/v1/companions?date={day}"))
        assert [one["id"] for one in page["companions"]] == found


@pytest.mark.parametrize(
    "given, named",
    [
        ({"timezone": "Mars"}, {"timezone"}),
        (
            {"weekly": [{"weekday": 7, "start": "9:00", "end": "25:00"}]},
            {"weekday", "start", "end"},
        ),
        ({"weekly": [{"weekday": 0, "start": "24:00", "end": "24:00"}]}, {"start"}),
        ({"weekly": [{"weekday": 0, "start": "17:00", "end": "09:00"}]}, {"start"}),
        ({"weekly": [OFFICE[0], {"weekday": 0, "start": "09:00", "end": "09:00"}]}, {"start"}),
        ({"weekly": OFFICE * 21}, {"weekly"}),
        ({"weekly": {}}, {"weekly"}),
        ({"weekly": ["09:00"]}, {"0"}),
        ({"overrides": [{"date": "2027-02-30", "slots": []}]}, {"date"}),
        ({"overrides": [{"date": "2027-03-03", "slots": []}] * 2}, {"overrides"}),
        (
            {"overrides": [{"date": "2027-03-03", "slots": [{"start": "12:00", "end": "11:00"}]}]},
            {"start"},
        ),
    ],
    ids=lambda given: str(sorted(given)) if isinstance(given, set) else str(given),
)
async def test_wrong_hours_are_named(
    world: HttpDeployment, given: dict[str, Any], named: set[str]
) -> None:
    """Invalid hours are 422 with the name of each field, and nothing is stored."""
    staff = await world.signed_in_client(world.companion.id)
    answer = await staff.put(HOURS, json={"timezone": "UTC", **given})
    error_body(answer, 422, "invalid_field")
    assert {name.rpartition(".")[2] for name in error_fields(answer)} == named
    assert json_body(await staff.get(HOURS))["availability"]["weekly"] == []


async def test_paths_of_faults_are_dotted(world: HttpDeployment) -> None:
    """Invalid and missing fields are named by their dotted path, as in `weekly.0.start`."""
    staff = await world.signed_in_client(world.companion.id)
    late = {"start": "12:00", "end": "11:00"}
    given = {
        "timezone": "UTC",
        "weekly": [{"weekday": 0, **late}],
        "overrides": [{"date": "2027-03-03", "slots": [late]}],
    }
    wrong = await staff.put(HOURS, json=given)
    assert error_fields(wrong) == {"weekly.0.start", "overrides.0.slots.0.start"}
    lacking = await staff.put(HOURS, json={"weekly": [{"start": "09:00", "end": "17:00"}]})
    error_body(lacking, 400, "missing_field")
    assert error_fields(lacking) == {"timezone", "weekly.0.weekday"}


async def test_hours_are_bounded_by_the_body_size(world: HttpDeployment) -> None:
    """A calendar of 1,000 overrides is stored, and a body over 64 KiB is 413."""
    staff = await world.signed_in_client(world.companion.id)
    days = [{"date": f"{2027 + n // 336}-{n % 336 // 28 + 1:02}-{n % 28 + 1:02}", "slots": []}
            for n in range(1000)]  # fmt: skip
    hours = {"timezone": "UTC", "overrides": days}
    assert len(json_body(await staff.put(HOURS, json=hours))["availability"]["overrides"]) == 1000
    padded = {**hours, "padding": "x" * 65_536}
    error_body(await staff.put(HOURS, json=padded), 413, "body_too_large")


# Access ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [PROFILE, HOURS, "/staff/portfolio"])
async def test_staff_endpoints_are_for_staff(world: HttpDeployment, path: str) -> None:
    """Staff endpoints are 403 for customers and admins before the body is parsed, 401 for keys, and
    403 without the CSRF token."""
    method = "POST" if path.endswith("portfolio") else "PUT"
    for user in (world.customer, world.admin):
        browser = await world.signed_in_client(user.id)
        error_body(await browser.get(path), 403, "staff_only")
        error_body(await browser.request(method, path, content=b"{"), 403, "staff_only")
    error_body(await world.client_with_key().get(path), 401, "session_required")
    staff = await world.signed_in_client(world.companion.id)
    del staff.headers["x-csrf-token"]
    error_body(await staff.request(method, path, json={}), 403, "csrf_failed")


async def test_a_disabled_member_is_signed_out(world: HttpDeployment) -> None:
    """A disabled staff member is signed out, and the profile is active again once they are
    enabled."""
    client, number = await newcomer(world)
    await administration.set_password(world.ports, "maja@example.com", TEST_PASSWORD)
    await disabling.disable_user(world.ports, "maja@example.com")
    error_body(await client.get(PROFILE), 401, "unauthenticated")
    await administration.enable_user(world.ports, "maja@example.com")
    browser = await world.signed_in_client(number)
    assert json_body(await browser.get(PROFILE))["profile"]["active"] is True
