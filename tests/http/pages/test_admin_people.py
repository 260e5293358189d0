"""Operators find people, see all about one, and decide with a reason that the audit keeps."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import httpx
import pytest

from staffbooking_adapters.testing.builders import NOW, add_booking, add_user
from staffbooking_core.domain.accounts.audit import AuditEntry
from staffbooking_core.domain.accounts.users import AccountState, Role, Subscription, User
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.usecases.accounts import administration, audit, people
from tests.http.deployment import HttpDeployment
from tests.http.pages.test_bookings import PEOPLE
from tests.support.html_pages import page_text

pytestmark = pytest.mark.anyio

LIST = "/admin/people"
REASON = "Asked by phone"


def path(person: User, step: str = "") -> str:
    return f"{LIST}/{person.id}{step}"


async def submit(client: httpx.AsyncClient, address: str, **given: str) -> httpx.Response:
    """Send a form, without the API's header."""
    token = client.headers["x-csrf-token"]
    fields = {"csrf": token, **given}
    return await client.post(address, data=fields, headers={"x-csrf-token": "", **PEOPLE})


async def reload(world: HttpDeployment, person: User) -> User:
    return await administration.get_user_by_id(world.ports, person.id)


async def last_entry(world: HttpDeployment) -> AuditEntry | None:
    found = await audit.list_audit_entries(world.ports)
    return found[0] if found else None


async def audited(world: HttpDeployment) -> tuple[Any, ...]:
    """By whom, what, to whom and why of the newest entry."""
    entry = await last_entry(world)
    assert entry is not None
    return (entry.actor_id, entry.act, entry.subject, entry.subject_id, entry.reason)


# Finding --------------------------------------------------------------------------------


async def test_people_are_found_by_what_is_known_of_them(each_world: HttpDeployment) -> None:
    """A name, an address, an id and a booking's code lead to the person."""
    admin = await each_world.signed_in_client(each_world.admin.id)
    person = await add_user(each_world.store, first_name="Zoë", last_name="Quist", email="z@q.test")
    booking = await add_booking(each_world.store, each_world.companion, person)
    for text in ("zoe", "Quist", "z@q", str(person.id), booking.code, booking.code.lower()):
        found = await admin.get(LIST, params={"q": text})
        assert f'href="{path(person)}"' in found.text, text
    assert f'href="{path(each_world.companion)}"' in found.text  # type: ignore[arg-type]
    assert f"/bookings/{booking.id}/return" in found.text
    assert "Nobody is found" in (await admin.get(LIST, params={"q": "uist"})).text


async def test_role_and_state_narrow_the_list(world: HttpDeployment) -> None:
    """Filters are kept in the form, and only who fits is listed."""
    admin = await world.signed_in_client(world.admin.id)
    await administration.set_subscription(world.ports, world.stranger.email, Subscription.BASIC)
    shown = (await admin.get(LIST, params={"q": "", "role": "admin", "state": "active"})).text
    assert set(re.findall(r'href="/admin/people/(\d+)"', shown)) == {str(world.admin.id)}
    assert '<option value="admin" selected>' in shown


async def test_the_list_comes_in_pages(world: HttpDeployment) -> None:
    """A link leads to the people after the last one; no person is shown twice."""
    admin = await world.signed_in_client(world.admin.id)
    for _ in range(30):
        await add_user(world.store, first_name="Many")
    seen: list[str] = []
    address = f"{LIST}?q=many"
    for _ in range(2):
        text = (await admin.get(address)).text
        seen += re.findall(r'href="/admin/people/(\d+)"', text)
        if following := re.search(r'href="\?([^"]*after=\d+)"', text):
            address = f"{LIST}?{following[1].replace('&amp;', '&')}"
    assert len(seen) == len(set(seen)) == 30


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("q=" + "x" * 101, 422),
        ("q=%E2%80%AEevil", 422),
        ("q=%00", 422),
        ("q=%FF", 422),
        ("role=king", 422),
        ("state=asleep", 422),
        ("after=-1", 422),
        ("after=99999999999999999999", 422),
        ("q=%CC%81", 200),
        ("q=9999999999999999999999", 200),
        ("q=<script>alert(1)</script>", 200),
    ],
)
async def test_a_hostile_search_is_told(world: HttpDeployment, query: str, status: int) -> None:
    """What can't be searched for is refused with a sentence, and shown as text at most."""
    admin = await world.signed_in_client(world.admin.id)
    shown = await admin.get(f"{LIST}?{query}", headers=PEOPLE)
    assert (shown.status_code, "<script>alert" in shown.text) == (status, False)


async def test_the_pages_are_for_operators(world: HttpDeployment) -> None:
    """Others find nothing, and visitors are led to sign in and back."""
    customer = await world.signed_in_client(world.customer.id)
    for step in ("", "/disable", "/enable", "/subscription", "/role"):
        address = path(world.stranger, step)
        assert (await customer.get(address, headers=PEOPLE)).status_code == 404
        if step:
            assert (await submit(customer, address, reason=REASON)).status_code == 404
        asked = await world.client().get(address, headers=PEOPLE)
        assert httpx.URL(asked.headers["location"]).params["next"] == address
    admin = await world.signed_in_client(world.admin.id)
    for unknown in ("/admin/people/999999", "/admin/people/x", "/admin/people/999999/disable"):
        assert (await admin.get(unknown, headers=PEOPLE)).status_code == 404


async def test_a_person_is_shown_whole(each_world: HttpDeployment) -> None:
    """Account, bookings, keys, profile and payouts of a person stand on one page."""
    admin = await each_world.signed_in_client(each_world.admin.id)
    booking = await add_booking(
        each_world.store, each_world.companion, each_world.customer, status=BookingStatus.PAID
    )
    staff = page_text((await admin.get(f"{LIST}/{each_world.companion.id}")).text)
    customer = page_text((await admin.get(path(each_world.customer))).text)
    for text in (staff, customer):
        assert booking.code in text
    assert "Payout account none yet" in staff
    assert each_world.customer.email in customer
    subscriber = page_text((await admin.get(path(each_world.subscriber))).text)
    assert "API keys" in subscriber
    assert "Revoke…" in subscriber


# Deciding -------------------------------------------------------------------------------


async def test_disabling_shows_its_bookings_first(each_world: HttpDeployment) -> None:
    """The page says what happens to each booking; with a decision about them and a reason the
    account is disabled, and the audit knows by whom and why."""
    admin = await each_world.signed_in_client(each_world.admin.id)
    person = each_world.customer
    request = await add_booking(each_world.store, each_world.companion, person)
    ahead = NOW + timedelta(days=9)
    accepted = await add_booking(
        each_world.store,
        each_world.companion,
        person,
        status=BookingStatus.ACCEPTED,
        starts_at=ahead,
        ends_at=ahead + timedelta(hours=4),
    )
    shown = page_text((await admin.get(path(person, "/disable"))).text)
    assert request.code in shown
    assert accepted.code in shown
    assert "The request ends." in shown
    assert "You decide below." in shown
    undecided = await submit(admin, path(person, "/disable"), reason=REASON)
    assert (undecided.status_code, "cancel them or keep them" in undecided.text) == (400, True)
    assert f">\n{REASON}</textarea>" in undecided.text
    assert (await reload(each_world, person)).state is AccountState.ACTIVE
    done = await submit(admin, path(person, "/disable"), reason=REASON, bookings="keep")
    assert (done.status_code, done.headers["location"]) == (303, path(person, "?disabled"))
    assert (await reload(each_world, person)).state is AccountState.DISABLED
    after = await admin.get(done.headers["location"])
    assert "The account is disabled." in after.text
    assert REASON in after.text
    assert await audited(each_world) == (
        *(each_world.admin.id, "disable", "person"),
        *(str(person.id), REASON),
    )


async def test_enabling_ends_it(world: HttpDeployment) -> None:
    """A disabled account is enabled with a reason."""
    admin = await world.signed_in_client(world.admin.id)
    await submit(admin, path(world.stranger, "/disable"), reason=REASON)
    assert "Enable…" in (await admin.get(path(world.stranger))).text
    done = await submit(admin, path(world.stranger, "/enable"), reason="A mistake")
    assert done.headers["location"] == path(world.stranger, "?enabled")
    assert (await reload(world, world.stranger)).state is AccountState.ACTIVE


async def test_nobody_disables_themselves(world: HttpDeployment) -> None:
    """The operator's own account has no button, and a forged form changes nothing."""
    admin = await world.signed_in_client(world.admin.id)
    assert "Disable…" not in (await admin.get(path(world.admin))).text
    refused = await submit(admin, path(world.admin, "/disable"), reason=REASON)
    assert (refused.status_code, "their own account" in refused.text) == (400, True)
    refused = await submit(admin, path(world.admin, "/role"), reason=REASON, role="customer")
    assert (refused.status_code, "their own role" in refused.text) == (400, True)
    assert (await reload(world, world.admin)).state is AccountState.ACTIVE
    assert await last_entry(world) is None


@pytest.mark.parametrize("reason", ["", "   ", "x" * 301, "\u202e evil"])
async def test_a_reason_is_needed(world: HttpDeployment, reason: str) -> None:
    """Without a reason in bounds nothing is changed, and the form says so at its field."""
    admin = await world.signed_in_client(world.admin.id)
    for step, given in (
        ("/disable", {}),
        ("/subscription", {"subscription": "basic"}),
        ("/role", {"role": "admin"}),
    ):
        before = await reload(world, world.stranger)
        refused = await submit(admin, path(world.stranger, step), reason=reason, **given)
        assert refused.status_code in (400, 422)
        assert 'id="e-reason"' in refused.text
        assert await reload(world, world.stranger) == before
    assert await last_entry(world) is None


async def test_the_subscription_is_set_with_its_last_day(world: HttpDeployment) -> None:
    """A subscription counts to the end of its last day; faults of all fields are told at once."""
    admin = await world.signed_in_client(world.admin.id)
    address = path(world.stranger, "/subscription")
    last_day = NOW.date() + timedelta(days=30)
    given = {"subscription": "enterprise", "last_day": last_day.isoformat()}
    done = await submit(admin, address, reason=REASON, **given)
    assert done.headers["location"] == path(world.stranger, "?subscription")
    person = await reload(world, world.stranger)
    assert person.subscription is Subscription.ENTERPRISE
    assert person.subscription_expires_at is not None
    assert person.subscription_expires_at.date() == last_day + timedelta(days=1)
    assert f'value="{last_day}"' in (await admin.get(address)).text
    wrong = await submit(admin, address, subscription="gold", last_day="soon")
    assert {'id="e-subscription"', 'id="e-last_day"', 'id="e-reason"'} <= set(
        re.findall(r'id="e-\w+"', wrong.text)
    )
    for day in ("2001-01-01", "9999-12-31"):
        past = await submit(admin, address, reason=REASON, subscription="enterprise", last_day=day)
        assert (past.status_code, 'id="e-last_day"' in past.text) == (422, True)
    assert await reload(world, world.stranger) == person


async def test_an_emptied_last_day_stays_empty(world: HttpDeployment) -> None:
    """A form that is refused for another field does not put the stored last day back."""
    admin = await world.signed_in_client(world.admin.id)
    address = path(world.stranger, "/subscription")
    given = {"subscription": "enterprise", "last_day": f"{NOW.date() + timedelta(days=30)}"}
    await submit(admin, address, reason=REASON, **given)
    refused = await submit(admin, address, reason="", subscription="enterprise", last_day="")
    assert 'id="e-reason"' in refused.text
    assert re.findall(r'name="last_day"[^>]*value="([^"]*)"', refused.text) == [""]


async def test_roles_change_between_customers_and_operators(each_world: HttpDeployment) -> None:
    """A customer becomes an operator, whose sessions end; a staff member keeps the role."""
    admin = await each_world.signed_in_client(each_world.admin.id)
    person = each_world.stranger
    browser = await each_world.signed_in_client(person.id)
    done = await submit(admin, path(person, "/role"), reason=REASON, role="admin")
    assert done.headers["location"] == path(person, "?role")
    assert (await reload(each_world, person)).role is Role.ADMIN
    assert (await browser.get("/account", headers=PEOPLE)).status_code == 303
    assert (await audited(each_world))[1] == "set_role"
    assert (
        await submit(admin, path(person, "/role"), reason=REASON, role="staff")
    ).status_code == 400
    staff = f"{LIST}/{each_world.companion.id}/role"
    assert (await admin.get(staff, headers=PEOPLE)).status_code == 404
    await submit(admin, path(person, "/role"), reason=REASON, role="customer")
    assert (await reload(each_world, person)).role is Role.CUSTOMER


async def test_the_page_of_a_new_operator_tells_what_ends(world: HttpDeployment) -> None:
    """The page says that the keys and webhooks of a customer end with the new role."""
    admin = await world.signed_in_client(world.admin.id)
    page = (await admin.get(path(world.stranger, "/role"))).text
    assert "The API keys of the account stop working." in page
    assert "The webhooks of the account are deleted." in page


async def test_a_new_operator_has_no_old_key(each_world: HttpDeployment) -> None:
    """A subscriber's key is refused once the subscriber is an operator; the audit has the change of
    the role alone."""
    admin = await each_world.signed_in_client(each_world.admin.id)
    address = path(each_world.subscriber, "/role")
    assert (await submit(admin, address, reason=REASON, role="admin")).status_code == 303
    used = await each_world.client_with_key().get("/api/v1/bookings")
    assert used.status_code == 401
    assert [each.act for each in await audit.list_audit_entries(each_world.ports)] == ["set_role"]


async def test_a_key_is_revoked(each_world: HttpDeployment) -> None:
    """A key of a person is revoked; one of another person is not found there."""
    admin = await each_world.signed_in_client(each_world.admin.id)
    person = each_world.subscriber
    [key] = (await people.get_person(each_world.ports, person.id)).keys
    address = path(person, f"/keys/{key.id}/revoke")
    assert key.masked_key in (await admin.get(address)).text
    elsewhere = path(each_world.outsider, f"/keys/{key.id}/revoke")
    assert (await admin.get(elsewhere, headers=PEOPLE)).status_code == 404
    assert (await submit(admin, elsewhere, reason=REASON)).status_code == 404
    done = await submit(admin, address, reason=REASON)
    assert done.headers["location"] == path(person, "?key")
    used = await each_world.client_with_key().get("/api/v1/bookings")
    assert used.status_code == 401


async def test_an_erased_person_has_nothing_to_decide(world: HttpDeployment) -> None:
    """An erased account is shown without buttons, and its decisions are not found."""
    from staffbooking_core.usecases import privacy

    admin = await world.signed_in_client(world.admin.id)
    await privacy.erase_person(world.ports, world.stranger.id)
    text = page_text((await admin.get(path(world.stranger))).text)
    assert "had this account erased" in text
    assert "Disable…" not in text
    assert (await admin.get(path(world.stranger, "/enable"), headers=PEOPLE)).status_code == 404
