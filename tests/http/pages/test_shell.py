"""Tests of what all pages share: static files, error pages, addresses of forms, theme, locale."""

from __future__ import annotations

import gzip
import re
from datetime import timedelta

import httpx
import pytest

from staffbooking_http.pages.app import page_handlers, page_methods
from staffbooking_http.pages.booking_texts import format_passing_span, format_span
from staffbooking_http.pages.faults import fault_sentence, field_label, labelled_fault
from staffbooking_http.pages.locales import find_locale
from tests.http.deployment import HttpDeployment, error_body
from tests.http.pages.test_bookings import PEOPLE

pytestmark = pytest.mark.anyio

ENGLISH = find_locale("")


def assets(page: httpx.Response) -> list[str]:
    """The addresses of the scripts and styles of a page."""
    return re.findall(r'(?:src|href)="(/static/[^"]+\.(?:js|css))"', page.text)


# Static files ---------------------------------------------------------------------------


async def test_static_files_are_compressed_where_that_is_accepted(world: HttpDeployment) -> None:
    """A static file has the same content compressed and plain, and varies by encoding."""
    client = world.client()
    for path in assets(await client.get("/")):
        plain = await client.get(path, headers={"accept-encoding": "identity"})
        async with client.stream("GET", path, headers={"accept-encoding": "gzip"}) as packed:
            raw = b"".join([part async for part in packed.aiter_raw()])
        assert (packed.headers["content-encoding"], packed.headers["vary"]) == (
            "gzip",
            "accept-encoding",
        )
        assert gzip.decompress(raw) == plain.content


async def test_scripts_import_served_names(world: HttpDeployment) -> None:
    """The modules that a script imports exist under the names that it imports them by."""
    client = world.client()
    scripts = [path for path in assets(await client.get("/")) if path.endswith(".js")]
    text = (await client.get(scripts[0])).text
    imported = re.findall(r'from "\./([^"]+)"', text)
    assert imported
    for name in imported:
        assert (await client.get(f"/static/{name}")).status_code == 200


async def test_an_unknown_static_file_is_404(world: HttpDeployment) -> None:
    """A static file without its digest, or with another one, is not found."""
    for name in ("app.css", "app.0000000000.css", "..%2fapp.py"):
        assert (await world.client().get(f"/static/{name}")).status_code == 404


# Errors ---------------------------------------------------------------------------------


async def test_an_unknown_path_is_a_page_for_people(world: HttpDeployment) -> None:
    """An unknown path is 404: an HTML page with the request's id for browsers, JSON for others and
    below `/api`."""
    client = world.client()
    page = await client.get("/nothing/here", headers=PEOPLE)
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert page.headers["x-request-id"] in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src")
    error_body(await client.get("/nothing/here"), 404, "not_found")
    error_body(await client.get("/api/nothing", headers=PEOPLE), 404, "not_found")


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("TEXT/HTML", "text/html; charset=utf-8"),
        ("text/html, application/json", "text/html; charset=utf-8"),
        ("application/json, text/html;q=0.5", "application/json"),
        ("application/json, text/html;q=0", "application/json"),
        ("application/json, text/plain, */*", "application/json"),
        ("text/html;q=inf", "application/json"),
        ("text/html;q=1e999", "application/json"),
        (f"text/html{', text/plain' * 1_000}", "text/html; charset=utf-8"),
        ("*/*", "application/json"),
    ],
)
async def test_who_likes_json_better_gets_it(world: HttpDeployment, accept: str, kind: str) -> None:
    """An error has the form that the request likes best, and JSON where it names no HTML."""
    answer = await world.client().get("/nothing/here", headers={"accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (404, kind)


@pytest.mark.parametrize("path", ["/docs", "/nothing/here"])
async def test_who_has_a_session_is_not_asked_to_sign_in(world: HttpDeployment, path: str) -> None:
    """Pages that do not ask the store offer signing in and registering to browsers without a
    session's cookie only."""
    customer = await world.signed_in_client(world.customer.id)
    for client, is_offered in ((world.client(), True), (customer, False)):
        shown = (await client.get(path, headers=PEOPLE)).text
        for way in ("sign-in", "register"):
            assert (f'href="/account/{way}' in shown) is is_offered


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/contact", 405, "method_not_allowed"),
        ("/bookings/1", 401, "unauthenticated"),
        ("/api/keys", 401, "unauthenticated"),
    ],
)
async def test_an_address_of_the_interface_is_a_page_for_people(
    world: HttpDeployment, path: str, status: int, code: str
) -> None:
    """A person who loads an address of the interface in vain reads a page; a program, and whoever
    loads one below `/api`, gets JSON."""
    client = world.client()
    error_body(await client.get(path), status, code)
    answer = await client.get(path, headers=PEOPLE)
    if path.startswith("/api/"):
        error_body(answer, status, code)
    else:
        assert answer.status_code == status
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["x-request-id"] in answer.text
        assert len(answer.headers.get_list("content-security-policy")) == 1


async def test_a_wrong_method_is_a_page_for_people(world: HttpDeployment) -> None:
    """A method that an address of the interface does not take is 405: an HTML page for browsers
    with any method, JSON for others and below `/api`."""
    client = world.client()
    for path, method in (("/contact", "PUT"), ("/bookings/1", "DELETE"), ("/healthz", "POST")):
        answer = await client.request(method, path, headers=PEOPLE)
        assert (answer.status_code, "allow" in answer.headers) == (405, True)
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        error_body(await client.request(method, path), 405, "method_not_allowed")
    refused = await client.put("/api/keys", headers=PEOPLE)
    error_body(refused, 405, "method_not_allowed")


@pytest.mark.parametrize(
    ("status", "code", "kind", "size"),
    [
        (413, "body_too_large", "application/json", 100_000),
        (415, "unsupported_media_type", "text/plain", 1),
    ],
)
async def test_a_body_that_is_not_read_is_a_page_for_people(
    world: HttpDeployment, status: int, code: str, kind: str, size: int
) -> None:
    """A body that is too large or of another type is 413 or 415: an HTML page for those who ask for
    one, JSON for others."""
    client, body = world.client(), b"x" * size
    for accept in (PEOPLE, {}):
        headers = {**accept, "Content-Type": kind}
        answer = await client.post("/auth/login", content=body, headers=headers)
        if accept:
            assert answer.status_code == status
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
        else:
            error_body(answer, status, code)


@pytest.mark.parametrize(
    ("path", "way"),
    [
        ("/bookings/1", "?next=/bookings/1/return"),
        ("/bookings/1/cancellation-quote", "?next=/bookings/1/return"),
        ("/bookings", ""),
    ],
)
async def test_an_address_of_the_interface_leads_to_its_page(
    world: HttpDeployment, path: str, way: str
) -> None:
    """Whoever loads an address of the interface signed out signs in to the page about it."""
    shown = (await world.client().get(path, headers=PEOPLE)).text
    assert "<h1>Sign in to see this</h1>" in shown
    assert f'class="main button" href="/account/sign-in{way}">Sign in' in shown


async def test_the_booking_of_somebody_else_is_a_page_for_people(world: HttpDeployment) -> None:
    """A booking that is not there, or is somebody else's, is a page that says so."""
    client = await world.signed_in_client(world.customer.id)
    answer = await client.get("/bookings/99", headers=PEOPLE)
    assert answer.status_code == 404
    assert "find that page" in answer.text
    error_body(await client.get("/bookings/99"), 404, "not_found")


FORM_ADDRESSES = [
    path
    for path, methods in page_methods(page_handlers(sandbox=True, testers=True)).items()
    if "GET" not in methods
]


@pytest.mark.parametrize("path", FORM_ADDRESSES)
async def test_the_address_of_a_form_leads_to_the_page_above(
    world: HttpDeployment, path: str
) -> None:
    """Loading an address that only takes POST leads a browser to a page; a program gets 405."""
    address = re.sub(r"\{[a-z]+\}", "1", path)
    is_for_customers = path.startswith(("/companions/", "/saved/"))
    user = world.customer if is_for_customers else world.companion
    client = await world.signed_in_client(user.id)
    answer = await client.get(address, headers=PEOPLE)
    assert answer.status_code == 303
    above = answer.headers["location"]
    assert above == "/" or address.startswith(f"{above}/")
    assert (await client.get(above, headers=PEOPLE)).status_code in (200, 404)
    error_body(await client.get(address), 405, "method_not_allowed")


async def test_a_path_breaks_no_header(world: HttpDeployment) -> None:
    """A line break in the address of a form stays encoded where the answer leads to."""
    path = "/companions/1%0D%0Aset-cookie:%20x=1/request"
    answer = await world.client().get(f"{path}/price", headers=PEOPLE)
    assert answer.status_code == 303
    assert answer.headers["location"].lower().startswith("/companions/1%0d%0aset-cookie")
    assert "set-cookie" not in answer.headers


# Theme and locale -----------------------------------------------------------------------


async def test_the_page_of_a_refused_form_is_kept_by_the_browser(world: HttpDeployment) -> None:
    """A browser that goes back to the page of a refused form need not send the form again."""
    client = world.client()
    refused = await client.post("/account/sign-in", data={"email": "x"}, headers=PEOPLE)
    assert (refused.status_code, refused.headers["cache-control"]) == (400, "private, no-cache")
    page = await client.get("/account/sign-in", headers=PEOPLE)
    assert page.headers["cache-control"] == "no-store"


async def test_the_theme_is_kept_in_a_cookie(world: HttpDeployment) -> None:
    """A chosen theme holds on every page until the system's is chosen again."""
    client = world.client()
    assert "data-theme" not in (await client.get("/")).text
    chosen = await client.post("/preferences/theme?next=/find", data={"theme": "dark"})
    assert (chosen.status_code, chosen.headers["location"]) == (303, "/find")
    assert '<html lang="en" data-theme="dark">' in (await client.get("/")).text
    await client.post("/preferences/theme", data={"theme": "system"})
    assert "data-theme" not in (await client.get("/")).text


async def test_a_foreign_page_chooses_no_theme(world: HttpDeployment) -> None:
    """A theme that a page of another origin sends is refused, and no other host is led to."""
    client = world.client()
    foreign = {"origin": "https://other.test"}
    sent = await client.post("/preferences/theme", data={"theme": "dark"}, headers=foreign)
    assert sent.status_code == 403
    away = await client.post("/preferences/theme?next=//other.test", data={"theme": "dark"})
    assert away.headers["location"] == "/"


async def test_a_forged_theme_is_ignored(world: HttpDeployment) -> None:
    """A cookie with another text than a theme changes nothing."""
    for cookie in ('theme="><script>', "theme=", "theme=blue; theme", "theme"):
        page = await world.client().get("/", headers={"cookie": cookie})
        assert (page.status_code, "data-theme" in page.text) == (200, False)


@pytest.mark.parametrize(
    ("header", "day", "clock", "money"),
    [
        ("", "Fri, 18 Dec 2026", "18:00", "€172.20"),
        ("en-US,en;q=0.9", "Fri, Dec 18, 2026", "6:00\u202fPM", "€172.20"),
        ("xx, en-GB;q=0.5, en-US;q=0.4", "Fri, 18 Dec 2026", "18:00", "€172.20"),
        ("en-US;q=0", "Fri, 18 Dec 2026", "18:00", "€172.20"),
        ("en-US;q=x,,;;" + "z" * 5000, "Fri, 18 Dec 2026", "18:00", "€172.20"),
    ],
)
def test_formats_follow_the_language(header: str, day: str, clock: str, money: str) -> None:
    """Dates, times and amounts have the form of the preferred known language, else of British
    English."""
    locale = find_locale(header)
    assert locale.format_day("2026-12-18") == day
    assert locale.format_clock("18:00") == clock
    assert locale.format_money("172.20", "eur") == money


def test_moments_stand_in_their_zone() -> None:
    """An instant is shown in the time zone of its event, named by its city."""
    locale = find_locale("en")
    assert (
        locale.format_moment("2026-12-18T18:00:00Z", "Asia/Tokyo") == "19 Dec 2026, 03:00 (Tokyo)"
    )
    assert locale.format_moment("2026-12-18T18:00:00Z") == "18 Dec 2026, 18:00 (UTC)"


def test_spans_have_one_unit() -> None:
    """A span of time is told in the largest unit that divides it."""
    spans = {12.0: "12 minutes", 60: "1 hour", 90: "90 minutes", 30 * 60: "30 hours"}
    spans |= {72 * 60: "3 days", 100 * 60: "100 hours", 800 * 24 * 60: "800 days"}
    spans |= {0: "0 minutes", 1 / 6: "10 seconds", 1.5: "90 seconds"}
    for minutes, text in spans.items():
        assert format_span(timedelta(minutes=minutes), find_locale("en")) == text


def test_what_is_left_is_rounded_down() -> None:
    """A span that passes is told in whole days, hours or minutes that it has, at least a minute."""
    spans = {0.5: "1 minute", 59.9: "59 minutes", 119: "1 hour", 47 * 60 + 40: "47 hours"}
    spans |= {72 * 60 - 1: "71 hours", 95 * 60: "3 days"}
    for minutes, text in spans.items():
        assert format_passing_span(timedelta(minutes=minutes), find_locale("en")) == text


# Faults ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "at_field", "with_label"),
    [
        ("must be an integer", "Enter a whole number.", "Duration: Enter a whole number."),
        ("is required", "Fill this in.", "Duration: Fill this in."),
        (
            "must cost at most 999999.99 crc",
            "Choose fewer hours: a payment is at most 999999.99 crc.",
            "Duration: Choose fewer hours: a payment is at most 999999.99 crc.",
        ),
        ("is registered already", "It is registered already.", "Duration is registered already."),
        ("12:00: start is late", "12:00: start is late.", "Duration 12:00: start is late."),
    ],
)
def test_faults_are_told_in_peoples_words(message: str, at_field: str, with_label: str) -> None:
    """The interface's message about a field is a sentence for people, at the field and away from
    it."""
    assert fault_sentence(message, ENGLISH) == at_field
    assert labelled_fault("duration_hours", message, ENGLISH) == with_label


@pytest.mark.parametrize(
    ("language", "until", "between"),
    [
        ("en", "Choose a date until 1 Mar 2027.", "Choose a date from 1 Jan 1970 to 5 Feb 2101."),
        (
            "de",
            "Wählen Sie ein Datum bis 1. März 2027.",
            "Wählen Sie ein Datum vom 1. Jan. 1970 bis 5. Feb. 2101.",
        ),
        (
            "pt-br",
            "Escolha uma data até 1 de mar. de 2027.",
            "Escolha uma data de 1 de jan. de 1970 a 5 de fev. de 2101.",
        ),
    ],
)
def test_dates_of_faults_are_shown_as_other_dates(language: str, until: str, between: str) -> None:
    """The bounds of a date are in the visitor's form, and not in that of the interface."""
    locale = find_locale(language)
    assert fault_sentence("must not be after 2027-03-01", locale) == until
    wide = "must lie between 1970-01-01 and 2101-02-05"
    assert labelled_fault("last_day", wide, locale).endswith(f": {between}")


def test_list_elements_are_counted_from_one() -> None:
    """A fault of a list's element names its position."""
    assert field_label("languages.1", ENGLISH.translations) == "Languages: 2"


@pytest.mark.parametrize("path", ["/", "/find"])
async def test_a_long_word_of_a_heading_has_a_hyphen_where_it_breaks(
    world: HttpDeployment, path: str
) -> None:
    """The long word of the German headings has a soft hyphen, since a phone can't hold it in one
    line."""
    page = await world.client().get(path, headers={**PEOPLE, "accept-language": "de"})
    [heading] = re.findall(r"<h1[^>]*>(.*?)</h1>", page.text, re.DOTALL)
    assert "Veranstaltungs\u00adpersonal" in heading
