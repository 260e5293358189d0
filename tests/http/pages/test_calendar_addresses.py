"""Tests of the page of calendars: addresses of other calendars, read again each hour."""

from __future__ import annotations

import re

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, MINUTE, add_companion
from staffbooking_core.domain.companions.calendar_subscriptions import CalendarReadFault
from tests.http.deployment import HttpDeployment, error_body
from tests.http.pages.test_bookings import PEOPLE
from tests.http.pages.test_hours import CALENDARS, TAKE, done, member, send
from tests.support.html_pages import page_text
from tests.support.ics import make_ics_calendar, make_ics_hour

pytestmark = pytest.mark.anyio

ADD = f"{CALENDARS}/addresses"
URL = "https://calendar.example/private-x9/basic.ics"
HOURS = make_ics_calendar(make_ics_hour("20270302T090000Z"), make_ics_hour("20270304T090000Z"))


def serve(
    world: HttpDeployment, content: bytes | CalendarReadFault = HOURS, url: str = URL
) -> None:
    world.calendar_fetcher.calendars[url] = content


async def added(world: HttpDeployment, **given: str) -> tuple[httpx.AsyncClient, str]:
    """A staff member with a calendar, and the path of the calendar's forms."""
    serve(world)
    staff = await member(world)
    shown = await done(staff, await send(staff, ADD, **{"url": URL, "name": "Family", **given}))
    found = re.search(rf'action="({ADD}/[0-9]+)/remove"', shown)
    assert found
    return staff, found[1]


async def text_of(client: httpx.AsyncClient) -> str:
    return page_text((await client.get(CALENDARS)).text)


async def test_a_calendar_is_added_read_and_removed(each_world: HttpDeployment) -> None:
    """A calendar's name, host and busy times are shown, never its address; removal asks first."""
    staff, way = await added(each_world)
    shown = (await staff.get(CALENDARS)).text
    text = page_text(shown)
    assert "Family Up to date calendar.example · Read just now · 2 busy times" in text
    assert "private" not in shown
    assert "Its busy times are removed too" in text
    gone = page_text(await done(staff, await send(staff, f"{way}/remove")))
    assert "The calendar is removed." in gone
    assert "calendar.example" not in gone
    assert "Nothing is known" in gone


async def test_busy_times_tell_their_calendars(world: HttpDeployment) -> None:
    """Each busy time names the calendars, or the file, that it is from."""
    staff, _ = await added(world, name="<b>Family</b>")
    events = (make_ics_hour("20270304T093000Z"), make_ics_hour("20270305T090000Z"))
    shown = await done(staff, await send(staff, TAKE, file=make_ics_calendar(*events)))
    found = re.findall(r'<span class="small soft sources">(.*?)</span>', shown)
    family = "<bdi>&lt;b&gt;Family&lt;/b&gt;</bdi>"
    assert found == [family, f"{family}, Calendar file", "Calendar file"]


async def test_the_page_has_the_tabs_of_the_hours(world: HttpDeployment) -> None:
    """The tabs lead to the week and the days; that of this page is the current one."""
    shown = (await (await member(world)).get(CALENDARS)).text
    assert re.search(rf'href="{CALENDARS}" aria-current="page">Other calendars<', shown)
    assert 'href="/staff/hours/dates"' in shown


async def test_a_calendar_without_a_name_is_named_by_its_host(world: HttpDeployment) -> None:
    """The host stands once where no name was given."""
    staff, _ = await added(world, name="")
    assert "calendar.example Up to date Read just now" in await text_of(staff)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"url": ""}, "Address of the calendar : Fill this in."),
        ({"url": "http://10.0.0.1/" + "x" * 3000}, "Address of the calendar : "),
        ({"url": "javascript:alert(1)"}, "It must be an https URL."),
        ({"url": "https://calendar.example/<script>"}, "It leads to no calendar"),
        ({"url": "https://calendar.example/gone"}, "It leads to no calendar"),
        ({"url": URL, "name": "n" * 61}, "Name : Use at most 60 characters."),
        ({"url": "x" * 3000, "name": "n" * 61}, "Please look at 2 things again."),
    ],
)
async def test_a_refused_address_is_told_at_its_field(
    world: HttpDeployment, given: dict[str, str], told: str
) -> None:
    """All faults are told at once, what was typed stays, and nothing is stored."""
    serve(world)
    staff = await member(world)
    answer = await send(staff, ADD, **given)
    assert 400 <= answer.status_code < 500
    assert told in page_text(answer.text), page_text(answer.text)
    typed = given.get("name", "")
    assert f'value="{typed}"' in answer.text
    assert "Nothing is known" in await text_of(staff)


async def test_an_address_that_is_no_ascii_is_refused(world: HttpDeployment) -> None:
    """Bidirectional marks and emoji are a fault of the address, not an error."""
    staff = await member(world)
    for url in ("https://\N{RIGHT-TO-LEFT OVERRIDE}x/", "https://x.example/\N{GRINNING FACE}"):
        answer = await send(staff, ADD, url=url)
        assert answer.status_code == 422
        assert "Please look at one thing again." in answer.text


async def test_the_sixth_calendar_is_refused(world: HttpDeployment) -> None:
    """With five calendars the form gives way to a sentence, and a sixth is refused."""
    staff = await member(world)
    for number in range(5):
        serve(world, url=f"{URL}?{number}")
        await done(staff, await send(staff, ADD, url=f"{URL}?{number}"))
    shown = await staff.get(CALENDARS)
    assert "which is the limit" in shown.text
    assert f'action="{ADD}"' not in shown.text
    assert (await send(staff, ADD, url=URL)).status_code == 400


async def test_a_calendar_is_read_now(world: HttpDeployment) -> None:
    """The button shows after a minute, reads the calendar, and says how it went."""
    staff, way = await added(world)
    assert f'action="{way}/read"' not in (await staff.get(CALENDARS)).text
    assert "read just now" in await done(staff, await send(staff, f"{way}/read"))
    world.clock.advance(12 * MINUTE)
    assert "Read 12 minutes ago" in await text_of(staff)
    serve(world, make_ics_calendar())
    text = page_text(await done(staff, await send(staff, f"{way}/read")))
    assert "The calendar has been read." in text
    assert "Read just now · 0 busy times" in text


@pytest.mark.parametrize("fault", CalendarReadFault)
async def test_a_calendar_that_fails_says_why(
    world: HttpDeployment, fault: CalendarReadFault
) -> None:
    """A calendar that can't be read says why in words, and that its busy times hold."""
    staff, way = await added(world)
    serve(world, fault)
    world.clock.advance(HOUR)
    text = page_text(await done(staff, await send(staff, f"{way}/read")))
    assert "Not readable now" in text
    assert "Read 1 hour ago · 2 busy times" in text
    assert "Last tried just now. Until then, the busy times of the last read hold." in text
    assert str(fault) not in text


async def test_a_calendar_that_was_given_up_says_so(world: HttpDeployment) -> None:
    """After a week of failures the page says that the calendar is not read any more."""
    staff, _ = await added(world)
    async with world.store.read_view() as view:
        [found] = await view.calendar_subscriptions.subscriptions_of(world.companion.id)
    given_up = evolve(found, next_read_at=None, fault=CalendarReadFault.NOT_FOUND)
    await world.store.run_transaction(
        lambda tx: tx.calendar_subscriptions.save_subscription(given_up)
    )
    text = await text_of(staff)
    assert "Not read any more" in text
    assert "It is not tried any more by itself." in text


async def test_others_calendars_are_not_found(world: HttpDeployment) -> None:
    """Forms with another's calendar, or with none, are not found and change nothing."""
    staff, way = await added(world)
    other = await world.signed_in_client((await add_companion(world.store)).id)
    for path in (way, f"{ADD}/999999", f"{ADD}/0", f"{ADD}/x"):
        for act in ("read", "remove"):
            assert (await send(other, f"{path}/{act}")).status_code == 404
    assert "2 busy times" in await text_of(staff)


async def test_the_addresses_of_the_forms_lead_to_the_page(world: HttpDeployment) -> None:
    """A browser that loads the address of a form comes to the page."""
    staff, way = await added(world)
    answer = await staff.get(ADD, headers=PEOPLE)
    assert (answer.status_code, answer.headers["location"]) == (303, CALENDARS)
    answer = await staff.get(f"{way}/remove", headers=PEOPLE)
    assert answer.status_code == 303


async def test_the_forms_are_for_staff(world: HttpDeployment) -> None:
    """Customers get an error."""
    customer = await world.signed_in_client(world.customer.id)
    for path in (ADD, f"{ADD}/1/read", f"{ADD}/1/remove"):
        error_body(await send(customer, path, url=URL), 403, "staff_only")
