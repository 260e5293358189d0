"""Tests of the companion search page and the companion page."""

from __future__ import annotations

import html
import re
from datetime import date, timedelta

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    add_booking,
    add_companion,
    make_calendar,
)
from staffbooking_adapters.testing.builders_portfolio import add_portfolio_item
from staffbooking_adapters.testing.builders_reviews import add_review
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.companions.availability import DateOverride
from staffbooking_core.domain.companions.companion import Approval, Badge, Tier
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.domain.shared.rate_limits import RateLimit
from tests.http.bookings.test_booking_flow import set_clock
from tests.http.companions.test_reviews import about, completed, sides
from tests.http.deployment import HttpDeployment, json_body
from tests.http.pages.test_bookings import PEOPLE

pytestmark = pytest.mark.anyio

FIND = "/find"
TODAY = date(2027, 3, 1)


def page(world: HttpDeployment) -> str:
    return f"/companions/{world.companion.id}"


def found(answer: httpx.Response) -> list[int]:
    """The companion ids that a page of results links to."""
    assert answer.status_code == 200
    return [int(number) for number in re.findall(r'href="/companions/(\d+)', answer.text)]


def free_days(text: str) -> list[date]:
    """The days that the month calendar of a companion page links to."""
    calendar = text[text.index('<div class="month"') :].partition("</table>")[0]
    return [date.fromisoformat(day) for day in re.findall(r"[?;]date=([\d-]+)", calendar)]


def free_hours(text: str) -> list[str]:
    """The free hours of the chosen day on a companion page."""
    listed = re.search(r'<ul class="slots">(.*?)</ul>', text, re.DOTALL)
    return re.findall(r"<li>([^<]*)</li>", listed[1]) if listed else []


def words(text: str) -> str:
    """The text of a page without its tags, on one line."""
    return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", text).split()))


async def customer_of(world: HttpDeployment) -> httpx.AsyncClient:
    return await world.signed_in_client(world.customer.id)


# Search ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [FIND, "/"])
async def test_a_search_is_for_every_date_that_still_runs(world: HttpDeployment, path: str) -> None:
    """The earliest date of a search is that of the westernmost time zone."""
    for now, first in (("11:59", "2027-03-01"), ("12:00", "2027-03-02")):
        await set_clock(world, f"2027-03-02T{now}:00Z")
        shown = (await world.client().get(path)).text
        assert re.findall(r'<input[^>]* name="date"[^>]* min="([^"]*)"', shown) == [first]


async def test_staff_are_found_by_what_is_filled_in(each_world: HttpDeployment) -> None:
    """Filters combine as in the API, and each result links to its companion page."""
    store = each_world.store
    calendar = make_calendar(overrides=(DateOverride(TODAY + timedelta(2)),))
    dear = await add_companion(store, hourly_rate=10_001)
    await add_companion(store, location_city="Oslo", location_country="Norway")
    await add_companion(store, service_types=("Juggling",))
    away = await add_companion(store, calendar=calendar)
    await add_companion(store, approval=Approval.PENDING)
    customer = await customer_of(each_world)
    asked = f"{FIND}?location=lisb&service=gala+dinner&min_price=99.9&max_price=100"
    mine = each_world.companion.id
    assert found(await customer.get(asked)) == [mine, away.id]
    shown = await customer.get(f"{asked}&date=2027-03-03")
    assert found(shown) == [mine]
    assert f'href="/companions/{mine}?date=2027-03-03&amp;service=Gala+dinner"' in shown.text
    assert dear.id in found(await customer.get(FIND))


async def test_a_result_says_what_one_chooses_by(world: HttpDeployment) -> None:
    """A result shows name, place, price, currency, tagline, rating, tier, badges and photo."""
    await add_companion(
        world.store,
        location_city="Oslo",
        tagline="Calm & kind",
        profile_photo="media/mia.jpg",
        tier=Tier.ELITE,
        badges=(Badge.FAST_RESPONDER,),
        rating_sum=9,
        total_reviews=2,
    )
    shown = (await (await customer_of(world)).get(f"{FIND}?location=oslo")).text
    for said in ("Mia", "US$100.00 an hour", "Oslo, Portugal", "Calm & kind", "4.5", "2 reviews"):
        assert said in words(shown)
    assert ("Elite" in words(shown), "Fast responder" in words(shown)) == (True, True)
    assert 'src="/media/mia.jpg"' in shown


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("lisbon", "Event staff in Lisbon"),
        ("PORTUGAL", "Event staff in Portugal"),
        ("lisb", "Event staff in lisb"),
        ("Nowhere", "Event staff in Nowhere"),
    ],
)
async def test_the_title_has_the_places_own_name(
    world: HttpDeployment, typed: str, title: str
) -> None:
    """A city or country that was found stands in the title as its people write it, another place
    as it was typed."""
    shown = (await (await customer_of(world)).get(FIND, params={"location": typed})).text
    assert f'<h1 dir="auto">{title}</h1>' in shown


async def test_what_is_left_empty_is_no_filter(world: HttpDeployment) -> None:
    """Empty fields, which browsers send too, do not filter."""
    names = ("location", "service", "date", "min_price", "max_price")
    customer = await customer_of(world)
    answer = await customer.get(FIND, params=dict.fromkeys(names, ""))
    assert found(answer) == [world.companion.id]


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ({"min_price": "1,5"}, "From : Enter a number."),
        ({"date": "3 March"}, "Free on : Choose a date."),
        ({"min_price": "9", "max_price": "8"}, "The lowest price is above the highest."),
        ({"location": "x" * 101}, "Where : Use at most 100 characters."),
        ({"location": "Oslo", "page": "0"}, "Page : Enter a number from 1 to 100000."),
    ],
)
async def test_filters_that_make_no_sense_stay_in_the_form(
    world: HttpDeployment, filters: dict[str, str], said: str
) -> None:
    """Invalid filters stay in the form with the error and no results."""
    answer = await (await customer_of(world)).get(FIND, params={**filters, "service": "Mime"})
    assert answer.status_code == 422
    assert said in words(answer.text[answer.text.index('role="alert"') :])
    for name, text in filters.items():
        assert name == "page" or re.search(f'name="{name}"[^>]* value="{text}"', answer.text)
    field = "min_price" if "min_price" in filters else next(iter(filters))
    assert "page" in filters or f'id="e-{field}"' in answer.text
    assert "<option selected>Mime</option>" in answer.text
    assert "Mia" not in answer.text


async def test_results_come_in_pages_of_the_same_search(each_world: HttpDeployment) -> None:
    """Page links keep the filters and the page size."""
    for _ in range(2):
        await add_companion(each_world.store, location_country="Côte d'Ivoire & more")
    customer = await customer_of(each_world)
    filters = {"location": "d'Ivoire & m", "limit": "1", "date": ""}
    first = await customer.get(FIND, params=filters)
    [onward] = re.findall(r'href="(\?[^"]*)">Next', first.text)
    second = await customer.get(FIND + html.unescape(onward))
    assert len({*found(first), *found(second)}) == 2
    assert ">Next<" not in second.text
    [back] = re.findall(r'href="(\?[^"]*)"><svg[^>]*><path[^>]*></svg>Previous', second.text)
    assert found(await customer.get(FIND + html.unescape(back))) == found(first)


async def test_an_empty_page_says_why(world: HttpDeployment) -> None:
    """An empty page tells no results from no more results."""
    customer = await customer_of(world)
    assert "Nobody fits" in (await customer.get(f"{FIND}?location=Nowhere")).text
    assert "There are no more" in (await customer.get(f"{FIND}?page=2")).text


async def test_services_are_offered_to_choose_from(world: HttpDeployment) -> None:
    """Offered services are listed, and the chosen one is selected in any case."""
    shown = (await (await customer_of(world)).get(f"{FIND}?service=gala+DINNER")).text
    options = re.findall(r"<option([^>]*)>([^<]*)</option>", shown)
    assert options == [
        (' value=""', "Any service"),
        (" selected", "Gala dinner"),
        ("", "Trade fair"),
    ]


async def test_signed_out_visitors_search_and_read_profiles(each_world: HttpDeployment) -> None:
    """Search and profiles need no sign-in; a request does, and sign-in leads back to it."""
    client = each_world.client()
    assert found(await client.get(f"{FIND}?location=LISB")) == [each_world.companion.id]
    shown = await client.get(f"{page(each_world)}?date=2027-03-03&service=trade+fair")
    [request] = set(re.findall(r'href="(/companions/[^"]*/request[^"]*)"', shown.text))
    asked = f"{page(each_world)}/request?date=2027-03-03&service=Trade+fair"
    assert html.unescape(request) == asked
    answer = await client.get(asked)
    assert answer.status_code == 303
    assert httpx.URL(answer.headers["location"]).params["next"] == asked


async def test_sign_in_leads_back_to_the_search(world: HttpDeployment) -> None:
    """The sign-in link of a search keeps its filters, unless they are too long."""
    client = world.client()
    for asked, back in (
        (f"{FIND}?location=Lis%20b&date=2027-03-03", f"{FIND}?location=Lis%20b&date=2027-03-03"),
        (f"{FIND}?location={'x' * 900}", FIND),
        (f"{page(world)}?date=2027-03-03", f"{page(world)}?date=2027-03-03"),
    ):
        [link] = re.findall(r'href="(/account/sign-in[^"]*)"', (await client.get(asked)).text)
        assert httpx.URL(html.unescape(link)).params["next"] == back


async def test_filters_go_along_to_profiles(world: HttpDeployment) -> None:
    """Links to profiles carry the day, the service and the booking to rebook; each filter can be
    taken away alone."""
    asked = {"location": "Lisbon", "service": "trade fair", "date": "2027-03-03"}
    shown = (await world.client().get(FIND, params={**asked, "rebooking_of": "BK1"})).text
    [link] = re.findall(r'class="tile" href="([^"]*)"', shown)
    assert dict(httpx.URL(html.unescape(link)).params) == {
        "date": "2027-03-03",
        "service": "Trade fair",
        "rebooking_of": "BK1",
    }
    chips = re.findall(r'<a class="chip button" href="([^"]*)"', shown)
    kept = [set(httpx.URL(html.unescape(chip)).params) for chip in chips]
    assert [{*asked, "rebooking_of"} - names for names in kept] == [
        {"service"},
        {"location"},
        {"date"},
    ]


async def test_all_who_look_for_staff_have_a_way_there(world: HttpDeployment) -> None:
    """The header links to the search for customers and admins, not for staff."""
    for who, led in ((world.customer, True), (world.admin, True), (world.companion, False)):
        browser = await world.signed_in_client(who.id)
        head = (await browser.get("/conversations")).text.partition("</header>")[0]
        assert (f'href="{FIND}"' in head) is led
        assert found(await browser.get(FIND)) == [world.companion.id]


async def test_looking_is_not_counted(world: HttpDeployment) -> None:
    """Reading pages does not count against rate limits."""
    limits = evolve(world.ports.policy.limits, general=RateLimit("general", 1, HOUR))
    world.restart(policy=evolve(world.ports.policy, limits=limits))
    customer = await customer_of(world)
    for path in (FIND, page(world), f"{page(world)}/request") * 2:
        assert (await customer.get(path)).status_code == 200


# Companion ------------------------------------------------------------------------------


async def test_a_profile_says_what_there_is_to_know(each_world: HttpDeployment) -> None:
    """A companion page shows the profile, the prices and a link to the request form."""
    mia = await add_companion(
        each_world.store,
        tagline="Calm",
        bio="Two <b>bars</b>,\n300 guests.",
        years_experience=1,
        profile_photo="media/mia.jpg",
        calendar=make_calendar("Europe/Lisbon"),
        member_since=NOW - 60 * DAY,
    )
    shown = (await (await customer_of(each_world)).get(f"/companions/{mia.id}")).text
    for said in (
        "Mia",
        "Two <b>bars</b>, 300 guests.",
        "Gala dinner, Trade fair",
        "English, Portuguese",
        "US$100.00 an hour",
        "From 8 hours on at most US$700.00 a day",
        "1 year",
        "December 2026",
        "All times are Lisbon time",
        "Until 48 hours before: everything back",
        "insurance (5% of the price)",
    ):
        assert said in words(shown)
    assert 'src="/media/mia.jpg"' in shown
    assert f'href="/companions/{mia.id}/request"' in shown


async def test_no_day_rate_is_said_where_there_is_none(world: HttpDeployment) -> None:
    """Without a daily rate, only the hourly rate is shown."""
    mia = await add_companion(world.store, daily_rate=None)
    shown = (await (await customer_of(world)).get(f"/companions/{mia.id}")).text
    assert "US$100.00 an hour" in words(shown)
    assert "at most" not in words(shown)


async def test_a_profile_shows_reviews_and_what_was_answered(each_world: HttpDeployment) -> None:
    """A companion page shows reviews with their responses."""
    booking = await completed(each_world)
    customer, staff = await sides(each_world)
    said = {"rating": 4, "comment": "Calm,\n& kind"}
    review = json_body(await customer.post(about(booking), json=said), 201)["review"]
    given = await staff.post(f"/reviews/{review['id']}/respond", json={"response": "Thank you"})
    json_body(given)
    shown = (await each_world.client().get(page(each_world))).text
    assert 'aria-label="4 of 5"' in shown
    for said_there in ("Ada O.", "March 2027", "Calm, & kind", "Thank you", "Mia answers"):
        assert said_there in words(shown)
    assert "Okoro" not in shown


async def test_a_profile_shows_averages_of_qualities(world: HttpDeployment) -> None:
    """The averages of the rated qualities stand with the reviews; unrated qualities do not."""
    booking = await completed(world)
    customer, _ = await sides(world)
    await customer.post(about(booking), json={"rating": 5, "punctuality": 4, "appearance": 5})
    shown = words((await world.client().get(page(world))).text)
    assert ("Punctuality 4" in shown, "Appearance 5" in shown) == (True, True)
    assert "Professionalism" not in shown


async def test_averages_of_qualities_say_what_they_are_of(world: HttpDeployment) -> None:
    """The averages are those of the newest reviews, and say so where there are more."""
    for number in range(11):
        booking = await add_booking(
            world.store, world.companion, world.customer, status=BookingStatus.COMPLETED
        )
        await add_review(world.store, booking, punctuality=4)
        shown = words((await world.client().get(page(world))).text)
        assert ("The newest 10 reviews: Punctuality 4" in shown) == (number == 10)


async def test_a_profile_shows_work_that_was_approved(world: HttpDeployment) -> None:
    """Approved portfolio items are shown; images on other hosts are left out."""
    mine, seen = world.companion.id, PortfolioItemStatus.APPROVED
    await add_portfolio_item(world.store, mine, title="Ball", image="media/a b.jpg", status=seen)
    await add_portfolio_item(world.store, mine, title="Fair", image="conversations/1", status=seen)
    await add_portfolio_item(world.store, mine, title="Secret", image="media/b.jpg")
    shown = (await (await customer_of(world)).get(page(world))).text
    assert re.findall(r'<img [^>]*src="([^"]*)"', shown) == ["/media/a%20b.jpg"]
    assert ("Ball" in shown, "Fair" in shown, "Secret" in shown) == (True, True, False)


async def test_images_of_ours_are_all_that_pages_may_load(world: HttpDeployment) -> None:
    """The Content-Security-Policy allows images of this service only."""
    answer = await (await customer_of(world)).get(page(world))
    assert "img-src 'self';" in answer.headers["content-security-policy"]


async def test_the_calendar_marks_free_days(each_world: HttpDeployment) -> None:
    """A month from the companion's local today is shown; free days are links."""
    each_world.clock.advance(11 * HOUR)  # It is Tuesday in Tokyo, and still Monday elsewhere.
    calendar = make_calendar("Asia/Tokyo", days=(1, 2), start=9, end=24)
    mia = await add_companion(each_world.store, calendar=calendar)
    client = each_world.client()
    shown = (await client.get(f"/companions/{mia.id}?service=gala+dinner")).text
    days = [TODAY + timedelta(n) for n in (1, 2, 8, 9, 15, 16, 22, 23, 29, 30)]
    assert free_days(shown) == days
    assert "March 2027" in words(shown)
    shown = (await client.get(f"/companions/{mia.id}?date=2027-03-09")).text
    assert free_hours(shown) == ["09:00 to midnight"]
    assert 'aria-current="date"' in shown
    shown = (await client.get(f"/companions/{mia.id}?date=2027-03-11")).text
    assert "Mia is not free on this day" in words(shown)


async def test_other_months_are_a_link_away(world: HttpDeployment) -> None:
    """Links lead to the months before and after, within the days that can be booked."""
    client = world.client()

    async def turns(asked: str) -> tuple[list[str], int]:
        text = (await client.get(f"{page(world)}{asked}")).text
        return re.findall(r'[?;]month=([\d-]+)[^"]*#free"', text), len(free_days(text))

    assert await turns("") == (["2027-04"], 31)
    assert await turns("?date=2020-01-01") == (["2027-04"], 31)
    assert await turns("?date=") == (["2027-04"], 31)
    assert await turns("?month=2027-04") == (["2027-03", "2027-05"], 30)
    assert await turns("?date=2027-04-03") == (["2027-03", "2027-05"], 30)
    assert await turns("?month=2030-02") == (["2030-01", "2030-03"], 28)
    assert await turns("?month=2999-12") == (["2030-02"], 1)


async def test_staff_and_admins_are_not_led_to_a_request(world: HttpDeployment) -> None:
    """Only customers and signed-out visitors see the link to the request form."""
    for who in (world.companion, world.admin):
        shown = (await (await world.signed_in_client(who.id)).get(page(world))).text
        assert "/request" not in shown
    for browser in (await customer_of(world), world.client()):
        assert f'href="{page(world)}/request"' in (await browser.get(page(world))).text


async def test_staff_see_their_profile_as_customers_do(world: HttpDeployment) -> None:
    """The staff member's own page says that it is theirs, and leads to the form that edits it."""
    own = await (await world.signed_in_client(world.companion.id)).get(page(world))
    assert 'href="/staff/me">Edit your profile' in own.text
    assert "Edit your profile" not in (await world.client().get(page(world))).text


async def test_the_theme_is_chosen_without_losing_the_search(world: HttpDeployment) -> None:
    """The form of the theme leads back to the search with its filters."""
    client = world.client()
    shown = (await client.get(f"{FIND}?location=Lisb&date=2027-03-03")).text
    [action] = re.findall(r'action="(/preferences/theme[^"]*)"', shown)
    chosen = await client.post(html.unescape(action), data={"theme": "dark"})
    assert chosen.headers["location"] == f"{FIND}?location=Lisb&date=2027-03-03"


async def test_who_is_not_listed_has_no_page(world: HttpDeployment) -> None:
    """Unlisted companions, customers and invalid ids are 404."""
    hidden = await add_companion(world.store, approval=Approval.SUSPENDED)
    customer = await customer_of(world)
    for number in (hidden.id, world.customer.id, 999, "0", "x"):
        for path in (f"/companions/{number}", f"/companions/{number}/request"):
            answer = await customer.get(path, headers=PEOPLE)
            assert answer.status_code == 404
            assert "text/html" in answer.headers["content-type"]


async def test_a_day_that_is_none_is_told(world: HttpDeployment) -> None:
    """An invalid date is 422 on a page that says what is wrong."""
    customer = await customer_of(world)
    answer = await customer.get(f"{page(world)}?date=tomorrow", headers=PEOPLE)
    assert (answer.status_code, "Choose a date" in answer.text) == (422, True)
    answer = await customer.get(f"{page(world)}?month=2027-13", headers=PEOPLE)
    assert (answer.status_code, "Choose a month" in answer.text) == (422, True)
