"""Tests of what the public pages share: the landing page, limits, validators, search engines."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from xml.etree import ElementTree

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import add_companion
from staffbooking_adapters.testing.store.companions.booked_days import change_companion
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.usecases.companions import search
from staffbooking_http.pages import sitemap
from tests.http.deployment import BASE_URL, HttpDeployment
from tests.http.pages.test_bookings import PEOPLE
from tests.http.pages.test_search import page, words

pytestmark = pytest.mark.anyio

_FIVE_MINUTES = timedelta(minutes=5)


# The landing page -----------------------------------------------------------------------


async def test_the_landing_page_shows_what_is_on_offer(each_world: HttpDeployment) -> None:
    """Signed-out visitors see services and cities with counts, people, and a search."""
    for city in ("Oslo", "OSLO"):
        await add_companion(each_world.store, location_city=city, location_country="Norway")
    await add_companion(each_world.store, location_city="Rome", approval=Approval.PENDING)
    shown = (await each_world.client().get("/")).text
    for said in (
        "Gala dinner 3 people",
        "Trade fair 3 people",
        "Oslo Norway · 2 people",
        "Lisbon Portugal · 1 person",
        "Free to cancel until 48 hours before",
    ):
        assert said in words(shown)
    assert "Rome" not in shown
    assert len(re.findall(r'class="tile" href="/companions/\d+"', shown)) == 3
    assert re.search(r'<form[^>]* method="get" action="/find"', shown)
    for name in ("location", "service", "date"):
        assert f'name="{name}"' in shown


async def test_the_landing_page_of_an_empty_service_leads_on(world: HttpDeployment) -> None:
    """Without listed people the page has no empty lists, and asks staff to register."""
    await add_companion(world.store, approval=Approval.PENDING)
    await change_companion(world.store, world.companion, approval=Approval.SUSPENDED)
    shown = words((await world.client().get("/")).text)
    assert "Nobody is listed yet" in shown
    assert "Popular cities" not in shown
    assert "What do you need?" not in shown


async def test_counts_are_kept_for_minutes(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counts read all companions: they are counted anew after five minutes, and while the
    store is unavailable the former ones stay."""
    client = world.client()
    assert "Gala dinner 1 person" in words((await client.get("/")).text)
    await add_companion(world.store)
    assert "Gala dinner 1 person" in words((await client.get("/")).text)
    world.clock.advance(_FIVE_MINUTES)
    assert "Gala dinner 2 people" in words((await client.get("/")).text)

    async def fail(*_: object) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(search, "count_service_types", fail)
    world.clock.advance(_FIVE_MINUTES)
    assert "Gala dinner 2 people" in words((await client.get("/")).text)


async def test_names_of_services_outlast_a_slow_store(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the store has no time for the names of services, pages show the former ones."""
    client = world.client()
    assert "Gala dinner" in (await client.get("/find")).text

    async def fail(*_: object) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(search, "list_service_names", fail)
    world.clock.advance(_FIVE_MINUTES)
    answer = await client.get("/find")
    assert (answer.status_code, "Gala dinner" in answer.text) == (200, True)


# Limits ---------------------------------------------------------------------------------


async def test_an_address_reads_so_many_public_pages(world: HttpDeployment) -> None:
    """Beyond the limit of an address search and profiles are a 429 page, for everybody there."""
    limits = evolve(world.ports.policy.limits, pages=RateLimit("pages", 3, _FIVE_MINUTES))
    world.restart(policy=evolve(world.ports.policy, limits=limits))
    client = world.client(**PEOPLE)
    for path in ("/find", page(world), "/sitemap.xml"):
        assert (await client.get(path)).status_code == 200
    for path in ("/find", page(world), "/sitemap.xml"):
        refused = await client.get(path)
        assert (refused.status_code, "Please slow down" in refused.text) == (429, True)
        assert int(refused.headers["retry-after"]) > 0
    customer = await world.signed_in_client(world.customer.id)
    assert (await customer.get("/find", headers=PEOPLE)).status_code == 429
    elsewhere = world.client("198.51.100.7", **PEOPLE)
    assert (await elsewhere.get("/find")).status_code == 200
    for path in ("/", "/terms", "/how-it-works", "/contact-us"):
        assert (await client.get(path)).status_code == 200


# Validators -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/find", "/companions/{id}", "/terms", "/sitemap.xml"])
async def test_signed_out_visitors_keep_pages(world: HttpDeployment, path: str) -> None:
    """A page that has not changed is 304, for its language and theme alone."""
    path = path.format(id=world.companion.id)
    client = world.client()
    first = await client.get(path)
    etag = first.headers["etag"]
    assert etag.startswith('W/"')
    assert first.headers["cache-control"] == "public, no-cache"
    assert first.headers["vary"] == "Cookie, Accept-Language"
    again = await client.get(path, headers={"if-none-match": etag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    if path != "/sitemap.xml":
        dark = {"if-none-match": etag, "cookie": "theme=dark"}
        assert (await client.get(path, headers=dark)).status_code == 200


async def test_a_change_is_seen_at_once(world: HttpDeployment) -> None:
    """The validator of a page changes with what the page shows."""
    client = world.client()
    for path in ("/find", page(world)):
        etag = (await client.get(path)).headers["etag"]
        await change_companion(world.store, world.companion, tagline=f"New {path}")
        assert (await client.get(path, headers={"if-none-match": etag})).status_code == 200


async def test_what_is_kept_has_nothing_personal(world: HttpDeployment) -> None:
    """Pages of signed-in visitors are not stored; those of others have no CSRF token."""
    for path in ("/find", page(world), "/terms"):
        own = await (await world.signed_in_client(world.customer.id)).get(path)
        assert (own.headers["cache-control"], "etag" in own.headers) == ("no-store", False)
        shared = await world.client().get(path)
        assert '<meta name="csrf-token" content="">' in shared.text
        assert "set-cookie" not in shared.headers


# Search engines -------------------------------------------------------------------------


async def test_pages_say_what_they_are(world: HttpDeployment) -> None:
    """Public pages have a title, a description, one address and the tags that other sites show."""
    titles = set()
    for path in ("/", "/find?location=Lisbon&page=1", page(world), "/terms", "/how-it-works"):
        shown = (await world.client().get(path)).text
        titles.add(re.findall(r"<title>([^<]*)</title>", shown)[0])
        [address] = re.findall(r'<link rel="canonical" href="([^"]*)"', shown)
        assert address == BASE_URL + path.removesuffix("&page=1")
        assert re.search(r'<meta name="description" content="[^"]{20,200}"', shown)
        for name in ("title", "description", "url", "type"):
            assert re.search(rf'<meta property="og:{name}" content="[^"]+"', shown)
    assert len(titles) == 5


async def test_a_profile_has_structured_data(world: HttpDeployment) -> None:
    """The JSON-LD of a profile has its price and rating, and no text can end its element."""
    mia = await add_companion(
        world.store,
        tagline="</script><script>alert(1)</script>",
        rating_sum=9,
        total_reviews=2,
        profile_photo="media/mia.jpg",
    )
    shown = (await world.client().get(f"/companions/{mia.id}")).text
    [text] = re.findall(r'<script type="application/ld\+json">(.*?)</script>', shown, re.DOTALL)
    data = json.loads(text)
    assert data["description"] == mia.tagline
    assert data["offers"]["price"] == "100.00"
    assert data["aggregateRating"] == {
        "@type": "AggregateRating",
        "ratingValue": "4.50",
        "reviewCount": 2,
    }
    assert data["image"] == f"{BASE_URL}/media/mia.jpg"


def links(answer: httpx.Response) -> list[str]:
    """The links of a sitemap."""
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/xml")
    tree = ElementTree.fromstring(answer.text)
    return [str(each.text) for each in tree.iter() if each.tag.endswith("}loc")]


async def test_the_sitemap_lists_public_pages(each_world: HttpDeployment) -> None:
    """All public pages and listed companions are in the sitemap, which robots.txt names."""
    hidden = await add_companion(each_world.store, approval=Approval.SUSPENDED)
    client = each_world.client()
    listed = links(await client.get("/sitemap.xml"))
    assert {f"{BASE_URL}/", f"{BASE_URL}/find", f"{BASE_URL}{page(each_world)}"} <= {*listed}
    assert f"{BASE_URL}/companions/{hidden.id}" not in listed
    for link in listed:
        assert (await client.get(link.removeprefix(BASE_URL))).status_code == 200
    robots = (await client.get("/robots.txt")).text
    assert f"Sitemap: {BASE_URL}/sitemap.xml" in robots
    assert "Disallow: /account" in robots


async def test_a_large_sitemap_comes_in_pages(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a page of ids the sitemap lists its pages, each of which lists its companions."""
    monkeypatch.setattr(sitemap, "IDS_PER_PAGE", 5)
    people = [await add_companion(world.store) for _ in range(4)]
    client = world.client()
    pages = links(await client.get("/sitemap.xml"))
    assert len(pages) == -(-people[-1].id // 5)
    listed = [
        link for each in pages for link in links(await client.get(each.removeprefix(BASE_URL)))
    ]
    numbers = [link.rpartition("/")[2] for link in listed if "/companions/" in link]
    assert numbers == [str(each.id) for each in (world.companion, *people)]
    assert (await client.get("/sitemap.xml?page=99")).status_code == 404
    assert (await client.get("/sitemap.xml?page=0")).status_code == 422
