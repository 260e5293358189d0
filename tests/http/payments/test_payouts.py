"""Payout accounts of staff members: the API, the page of the service, and the fake processor's
page."""

from __future__ import annotations

import re
from typing import Any

import anyio
import httpx
import pytest

from staffbooking_adapters.testing.builders import HOUR, add_companion, add_user
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.usecases.payments import payees
from staffbooking_core.usecases.payments.inbox import VISIT_SYNC_INTERVAL
from tests.http.api.test_errors import JSON, Failing
from tests.http.deployment import BASE_URL, HttpDeployment, error_body, error_fields, json_body

pytestmark = pytest.mark.anyio

PATH = "/staff/payout-account"
PAGE = "/staff/payouts"
NONE: dict[str, Any] = {
    "status": "none",
    "provider": "fake",
    "country": None,
    "needs": [],
    "message": None,
}


async def staff(world: HttpDeployment, *, by_hand: bool = False) -> httpx.AsyncClient:
    """The browser of a staff member without a payout account; with `by_hand` at a processor
    that asks for details first."""
    if by_hand:
        world.require_payout_accounts()
    companion = await add_companion(world.store, payout_account=None)
    return await world.signed_in_client(companion.id)


async def account(browser: httpx.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = json_body(await browser.get(PATH))["payout_account"]
    return found


async def fault(world: HttpDeployment, kind: str) -> None:
    body = {"op": "open_payee", "kind": kind}
    json_body(await world.client().post("/sandbox/payments/faults", json=body))


# The API --------------------------------------------------------------------------------


async def test_an_account_is_opened_and_gives_a_page(each_world: HttpDeployment) -> None:
    """A request opens the payout account and returns the processor's page with its expiry."""
    browser = await staff(each_world)
    assert await account(browser) == NONE
    asked = json_body(await browser.post(PATH, json={"country": "pt"}))
    assert asked["success"] is True
    assert asked["payout_account"] == {**NONE, "status": "ready", "country": "PT"}
    assert asked["onboarding_url"].startswith(f"{BASE_URL}/sandbox/payees/")
    assert asked["expires_at"] == "2027-03-01T12:05:00Z"
    assert await account(browser) == asked["payout_account"]


async def test_an_account_needs_no_profile(each_world: HttpDeployment) -> None:
    """A staff member without a profile can open a payout account."""
    user = await add_user(each_world.store, role=Role.STAFF)
    browser = await each_world.signed_in_client(user.id)
    assert await account(browser) == NONE
    assert json_body(await browser.post(PATH))["payout_account"]["status"] == "ready"


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"country":null}', b'{"country":"US","id":7}'])
async def test_the_body_is_optional(world: HttpDeployment, raw: bytes) -> None:
    """The body and its country are optional, and default to the deployment's country."""
    browser = await staff(world)
    headers = JSON if raw else {}
    asked = json_body(await browser.post(PATH, content=raw, headers=headers))
    assert asked["payout_account"]["country"] == "US"


@pytest.mark.parametrize(
    "country",
    [
        *(
            "USA",
            "U",
            "",
            "  ",
            "U1",
            "ÅÄ",
            "ÅÄ".encode().decode("latin-1"),
            "\u00df",
            5,
            True,
            [],
            {},
        ),
        *("XX", "uk", "EU", "ZZ"),
    ],
)
async def test_a_country_is_one_of_iso_3166(world: HttpDeployment, country: object) -> None:
    """A country other than the two letters of one is 422, and no account is opened."""
    browser = await staff(world)
    answer = await browser.post(PATH, json={"country": country})
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"country"}
    assert await account(browser) == NONE


async def test_a_body_must_be_json(world: HttpDeployment) -> None:
    """A body of no content type is 415, one that is no object 400, and an overlong one 413."""
    browser = await staff(world)
    error_body(await browser.post(PATH, content=b"{}"), 415, "unsupported_media_type")
    error_body(await browser.post(PATH, content=b"[]", headers=JSON), 400, "malformed_json")
    error_body(await browser.post(PATH, content=b"x" * 70_000, headers=JSON), 413, "body_too_large")


async def test_accounts_are_for_staff(world: HttpDeployment) -> None:
    """Payout accounts are 403 for customers and admins, 401 without a session, and 403 without the
    CSRF token."""
    for user in (world.customer, world.admin):
        browser = await world.signed_in_client(user.id)
        error_body(await browser.get(PATH), 403, "staff_only")
        error_body(await browser.post(PATH, content=b"{"), 403, "staff_only")
    error_body(await world.client().get(PATH), 401, "unauthenticated")
    error_body(await world.client_with_key().get(PATH), 401, "session_required")
    browser = await staff(world)
    del browser.headers["x-csrf-token"]
    error_body(await browser.post(PATH), 403, "csrf_failed")
    assert await account(browser) == NONE


async def test_an_unavailable_processor_is_500(world: HttpDeployment) -> None:
    """A request while the processor is unavailable is 500, and the due work opens the account
    later."""
    browser = await staff(world)
    await fault(world, "rate_limit")
    error_body(await browser.post(PATH, json={"country": "pt"}), 500, "processor_unavailable")
    assert (await account(browser))["status"] == "opening"
    world.clock.advance(HOUR)
    assert await payees.run_due_payee(world.ports) == 1
    assert await account(browser) == {**NONE, "status": "ready", "country": "PT"}


async def test_a_refusal_is_shown_and_can_be_retried(world: HttpDeployment) -> None:
    """A refusal is 400 with a reason that stays visible, and the next request opens the account."""
    browser = await staff(world)
    await fault(world, "refuse")
    told = error_body(await browser.post(PATH), 400, "payout_account_refused")
    seen = await account(browser)
    assert (seen["status"], seen["message"]) == ("refused", told["error"])
    assert json_body(await browser.post(PATH))["payout_account"]["status"] == "ready"
    assert (await account(browser))["message"] is None


async def test_concurrent_requests_open_one_account(each_world: HttpDeployment) -> None:
    """Concurrent requests with different countries open one account, and all get its page."""
    browser, answers = await staff(each_world), []

    async def ask(country: str) -> None:
        answers.append(json_body(await browser.post(PATH, json={"country": country})))

    async with anyio.create_task_group() as tasks:
        for country in ("pt", "es") * 5:
            tasks.start_soon(ask, country)
    assert len({answer["payout_account"]["country"] for answer in answers}) == 1
    assert len({answer["onboarding_url"] for answer in answers}) == 1


async def test_an_account_is_its_owners(world: HttpDeployment) -> None:
    """A staff member does not see the account of another."""
    await (await staff(world)).post(PATH)
    assert await account(await staff(world)) == NONE


async def test_an_unavailable_store_is_503(world: HttpDeployment) -> None:
    """An unavailable store is 503."""
    browser = await staff(world)
    world.restart(store=Failing(StoreUnavailable("gone")))
    there = world.client(**dict(browser.headers))
    error_body(await there.get(PATH), 503, "unavailable")


# The processor's page -------------------------------------------------------------------


async def onboarding(world: HttpDeployment) -> tuple[httpx.AsyncClient, str]:
    browser = await staff(world, by_hand=True)
    asked = json_body(await browser.post(PATH))
    assert asked["payout_account"]["status"] == "incomplete"
    assert asked["payout_account"]["needs"] == ["details"]
    return browser, asked["onboarding_url"]


async def test_the_processors_form_completes_the_account(world: HttpDeployment) -> None:
    """The form of the processor's page completes the account, and the page then links back to the
    service."""
    browser, url = await onboarding(world)
    visitor = world.client()
    page = (await visitor.get(url)).text
    assert "Mia Lindqvist" in page
    assert "<form" in page
    form = {"content-type": "application/x-www-form-urlencoded"}
    done = await visitor.post(url, headers=form, content=b"")
    assert (done.status_code, BASE_URL + done.headers["location"]) == (303, url)
    page = (await visitor.get(url)).text
    assert "<form" not in page
    assert f'href="{BASE_URL}{PAGE}?done"' in page
    assert (await account(browser))["status"] == "ready"


async def test_json_completes_the_account(world: HttpDeployment) -> None:
    """A JSON request to the processor's page makes the account ready."""
    browser, url = await onboarding(world)
    assert json_body(await world.client().post(url, json={})) == {"success": True, "ready": True}
    assert (await account(browser))["status"] == "ready"


async def test_the_processors_page_checks_requests(world: HttpDeployment) -> None:
    """An unknown account is 404 before the body is checked, and invalid bodies and methods are
    refused."""
    _, url = await onboarding(world)
    client = world.client()
    for unknown in (f"{url}x", f"{BASE_URL}/sandbox/payees/%00", f"{BASE_URL}/sandbox/payees/é"):
        error_body(await client.get(unknown), 404, "not_found")
        error_body(await client.post(unknown, content=b"{"), 404, "not_found")
    error_body(await client.post(url, content=b"{"), 415, "unsupported_media_type")
    error_body(await client.post(url, content=b"{", headers=JSON), 400, "malformed_json")
    error_body(await client.post(url, content=b"x" * 70_000), 413, "body_too_large")
    error_body(await client.delete(url), 405, "method_not_allowed")


# The page of the service ----------------------------------------------------------------


def status(page: httpx.Response) -> str:
    """The status that the page shows."""
    assert page.status_code == 200, page.text
    found = re.search(r'Payout account <span class="status \w+">([\w ]+)</span>', page.text)
    assert found
    return found[1]


async def test_the_page_follows_the_account(world: HttpDeployment) -> None:
    """The page shows the status none, incomplete or ready, each with the next step."""
    browser = await staff(world, by_hand=True)
    page = await browser.get(PAGE)
    assert (status(page), "Open a payout account" in page.text) == ("Not opened", True)
    assert '<option value="US" selected>United States</option>' in page.text
    url = json_body(await browser.post(PATH))["onboarding_url"]
    page = await browser.get(PAGE)
    assert (status(page), "Go on" in page.text) == ("Incomplete", True)
    assert "Who you are, and your bank account" in page.text
    assert 'name="country"' not in page.text
    json_body(await world.client().post(url, json={}))
    page = await browser.get(PAGE)
    assert (status(page), "All is set" in page.text) == ("Ready", True)


async def test_a_return_visit_shows_the_current_status(world: HttpDeployment) -> None:
    """A return visit to the page, at most one per interval, asks the processor and shows the
    current status."""
    browser, url = await onboarding(world)
    assert "has not cleared it yet" in (await browser.get(f"{PAGE}?done")).text
    await world.ports.sandbox.complete_payee(url.rpartition("/")[2])  # type: ignore[union-attr]
    assert status(await browser.get(f"{PAGE}?done")) == "Incomplete"  # Within the interval.
    world.clock.advance(VISIT_SYNC_INTERVAL)
    assert status(await browser.get(PAGE)) == "Incomplete"
    assert status(await browser.get(f"{PAGE}?done")) == "Ready"
    assert status(await browser.get(PAGE)) == "Ready"


async def test_an_expired_link_is_explained(world: HttpDeployment) -> None:
    """A return from an expired link is explained, with a button for a new one."""
    browser, _ = await onboarding(world)
    page = (await browser.get(f"{PAGE}?again")).text
    assert "for one visit only" in page
    assert "<button" in page


async def test_the_page_shows_a_refusal(world: HttpDeployment) -> None:
    """The page shows a refusal with its reason and a form to try again."""
    browser = await staff(world)
    await fault(world, "refuse")
    message = error_body(await browser.post(PATH), 400, "payout_account_refused")["error"]
    page = await browser.get(PAGE)
    assert (status(page), message in page.text) == ("Refused", True)
    assert "Try again" in page.text
    assert 'name="country"' in page.text


async def test_strangers_and_customers_see_nothing(world: HttpDeployment) -> None:
    """The page asks signed-out visitors to sign in, and is 403 for customers."""
    page = await world.client().get(PAGE)
    assert page.status_code == 200
    assert "Sign in" in page.text
    error_body(await (await world.signed_in_client(world.customer.id)).get(PAGE), 403, "staff_only")


async def submit_form(browser: httpx.AsyncClient, **given: str) -> httpx.Response:
    """Send the form of the page, without the CSRF header."""
    token = browser.headers.pop("x-csrf-token")
    answer = await browser.post(PAGE, data={"csrf": token, **given})
    browser.headers["x-csrf-token"] = token
    return answer


async def test_an_account_is_opened_by_the_form(each_world: HttpDeployment) -> None:
    """The form opens the account and leads to the processor by redirect and link, also when sent
    again."""
    browser = await staff(each_world)
    for given in ({"country": "pt"}, {}):
        page = await submit_form(browser, **given)
        assert page.status_code == 200
        [url] = re.findall(r'<a class="button main" href="([^"]+)"', page.text)
        assert url.startswith(f"{BASE_URL}/sandbox/payees/")
        assert f'<meta http-equiv="refresh" content="0; url={url}">' in page.text
    assert await account(browser) == {**NONE, "status": "ready", "country": "PT"}


async def test_the_form_needs_the_csrf_token(world: HttpDeployment) -> None:
    """The form is 403 without the CSRF token and for customers, and leads signed-out visitors to
    the sign-in page."""
    browser = await staff(world)
    error_body(await submit_form(browser, csrf="x"), 403, "csrf_failed")
    assert await account(browser) == NONE
    asked = await world.client().post(PAGE, data={"csrf": "x"})
    assert asked.headers["location"] == "/account/sign-in?next=%2Fstaff%2Fpayouts"
    error_body(
        await submit_form(await world.signed_in_client(world.customer.id)), 403, "staff_only"
    )


async def test_the_form_shows_errors(world: HttpDeployment) -> None:
    """The page shows an invalid country, an unavailable processor and a refusal as errors."""
    browser = await staff(world)
    page = await submit_form(browser, country="5x")
    assert (page.status_code, "Choose a country." in page.text) == (422, True)
    for kind, code in (("rate_limit", 500), ("refuse", 400)):
        await fault(world, kind)
        page = await submit_form(browser)
        assert page.status_code == code
        assert 'role="alert"' in page.text
        assert '<button class="main">' in page.text
        world.clock.advance(HOUR)
