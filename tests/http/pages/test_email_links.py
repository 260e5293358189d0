"""Tests of the pages that emails link to: the token authorizes, and GET changes nothing."""

from __future__ import annotations

import re

import pytest

from staffbooking_adapters.testing.builders_notifications import add_notification, make_notification
from staffbooking_core.domain.notifications.notifications import (
    OPTIONAL_NOTIFICATION_KINDS,
    NotificationKind,
)
from staffbooking_core.ports import Email
from staffbooking_core.usecases.accounts import accounts
from staffbooking_core.usecases.notifications import notifications
from staffbooking_http.api import query_string
from staffbooking_http.pages.email_links import NOTICE_DESCRIPTIONS
from tests.http.deployment import BASE_URL, HttpDeployment, json_body

pytestmark = pytest.mark.anyio

NEW = "battery staple"
FORM = {"content-type": "application/x-www-form-urlencoded"}
KINDS = (NotificationKind.PAYOUT, NotificationKind.VERIFY_EMAIL, NotificationKind.RESET_PASSWORD)


async def letter(world: HttpDeployment, kind: NotificationKind) -> Email:
    """The last email sent, after a notification of `kind` to the customer."""
    await add_notification(
        world.store, make_notification(world.customer.id, kind=kind), world.clock.now
    )
    await notifications.send_notifications(world.ports)
    return world.notifier.emails[-1]


async def path(world: HttpDeployment, kind: NotificationKind) -> str:
    """The path of the email's unsubscribe link, or else of its main link."""
    told = await letter(world, kind)
    return (told.unsubscribe_url or told.url or "").removeprefix(BASE_URL)


async def is_verified(world: HttpDeployment) -> bool:
    async with world.store.read_view() as view:
        user = await view.accounts.user(world.customer.id)
    return user is not None and user.email_verified_at is not None


async def can_sign_in(world: HttpDeployment, password: str = NEW) -> bool:
    given = {"email": "ada@example.com", "password": password}
    return (await world.client().post("/auth/login", json=given)).status_code == 200


async def is_told(world: HttpDeployment) -> bool:
    return (await notifications.get_preferences(world.ports, world.customer.id))[
        NotificationKind.PAYOUT
    ]


async def test_one_click_ends_mails(each_world: HttpDeployment) -> None:
    """One-click unsubscribe works as email programs send it (RFC 8058)."""
    where = await path(each_world, NotificationKind.PAYOUT)
    assert where.startswith("/notifications/unsubscribe/")
    for _ in "ab":
        posted = await each_world.client().post(
            where, content="List-Unsubscribe=One-Click", headers=FORM
        )
        assert posted.status_code == 200
        assert not await is_told(each_world)
    assert (await each_world.client().post(where)).status_code == 200


async def test_a_page_asks_first(world: HttpDeployment) -> None:
    """The page has one button and names the kind; loading it changes nothing."""
    where = await path(world, NotificationKind.PAYOUT)
    for _ in "ab":
        page = await world.client().get(where)
        assert "when you are paid out" in page.text
        assert re.findall(r"<form method=\"post\"><button", page.text)
    await world.client().head(where)
    assert await is_told(world)
    assert "no more mails when you are paid out" in (await world.client().post(where)).text


async def test_the_kind_of_mail_is_in_the_visitors_language(world: HttpDeployment) -> None:
    """The page that ends mails names their kind in the visitor's language."""
    where = await path(world, NotificationKind.PAYOUT)
    page = await world.client().get(where, headers={"accept-language": "de"})
    assert "keine E-Mails mehr, wenn Sie eine Auszahlung erhalten?" in page.text


def test_all_that_may_be_refused_has_its_words() -> None:
    """The link of every optional kind leads to a page that names the kind."""
    assert set(NOTICE_DESCRIPTIONS) == set(OPTIONAL_NOTIFICATION_KINDS)


async def test_a_forged_link_is_404(world: HttpDeployment) -> None:
    """Forged tokens and tokens of another purpose are 404 with an error on the page."""
    where = await path(world, NotificationKind.PAYOUT)
    other = (await path(world, NotificationKind.VERIFY_EMAIL)).rpartition("/")[2]
    for token in ("x", other, where.rpartition("/")[2].replace("payout", "accepted")):
        forged = f"/notifications/unsubscribe/{token}"
        for answer in (await world.client().get(forged), await world.client().post(forged)):
            assert answer.status_code == 404
            assert "This link is wrong" in answer.text
    assert await is_told(world)


async def test_an_address_is_confirmed_by_a_button(each_world: HttpDeployment) -> None:
    """The button verifies the address once; loading the page does not."""
    where, client = await path(each_world, NotificationKind.VERIFY_EMAIL), each_world.client()
    assert "Confirm my address" in (await client.get(where)).text
    assert not await is_verified(each_world)
    assert "is confirmed" in (await client.post(where)).text
    assert await is_verified(each_world)
    for again in (await client.get(where), await client.post(where)):
        assert again.status_code == 400
        assert "was used already" in again.text
        assert 'href="/account/verify-email"' in again.text


async def test_a_password_is_set_by_a_form(each_world: HttpDeployment) -> None:
    """The form sets a password once; an invalid one is an error in the form."""
    where, client = await path(each_world, NotificationKind.RESET_PASSWORD), each_world.client()
    assert 'type="password"' in (await client.get(where)).text
    for given in ({"password": "short"}, {}):
        short = await client.post(where, data=given)
        assert short.status_code in (400, 422)
        assert 'type="password"' in short.text
    assert (
        "Use 10 to 128 characters." in (await client.post(where, data={"password": "short"})).text
    )
    assert "Your password is set" in (await client.post(where, data={"password": NEW})).text
    assert await can_sign_in(each_world)
    for again in (await client.get(where), await client.post(where, data={"password": NEW})):
        assert again.status_code == 400
        assert 'type="password"' not in again.text
        assert 'href="/account/forgot-password"' in again.text


async def test_no_password_of_a_form_is_remembered(world: HttpDeployment) -> None:
    """Submitted forms are not cached in memory as query strings are."""
    where = await path(world, NotificationKind.RESET_PASSWORD)
    await world.client().get(where)
    before = query_string._parse_cached.cache_info().misses
    assert "Your password is set" in (await world.client().post(where, data={"password": NEW})).text
    assert query_string._parse_cached.cache_info().misses == before


async def test_who_is_signed_in_can_sign_out_there(world: HttpDeployment) -> None:
    """These pages have the common header with sign-out."""
    browser = await world.signed_in_client(world.customer.id)
    for kind in KINDS:
        page = (await browser.get(await path(world, kind))).text
        assert 'action="/account/sign-out"' in page
        assert f'name="csrf" value="{browser.headers["x-csrf-token"]}"' in page


async def test_a_wrong_link_sets_nothing(world: HttpDeployment) -> None:
    """An invalid token sets no password and is an error on the page."""
    for where in ("/account/reset-password/x", "/account/verify-email/x"):
        client = world.client()
        assert (await client.get(where)).status_code == 400
        assert (await client.post(where, data={"password": NEW})).status_code == 400
    assert not await can_sign_in(world)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_pages_load_nothing_and_tell_nobody(
    world: HttpDeployment, kind: NotificationKind
) -> None:
    """The token reaches no other host, by referrer or by loaded resources."""
    where = await path(world, kind)
    answer = await world.client().get(where)
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert "form-action 'self'" in answer.headers["content-security-policy"]
    assert not re.search(r"""(src|href)="(https?:|//)|<iframe|url\(""", answer.text)
    assert where.rpartition("/")[2] not in answer.text


async def test_a_link_works_without_a_sandbox(world: HttpDeployment) -> None:
    """Email links work with any payment processor, not only the sandbox."""
    where = await path(world, NotificationKind.VERIFY_EMAIL)
    world.restart(sandbox=None)
    assert (await world.client().post(where)).status_code == 200
    assert await is_verified(world)
    with pytest.raises(Exception, match="wrong, was used already"):
        await accounts.verify_email(world.ports, where.rpartition("/")[2])
    assert json_body(await world.client().get("/healthz"))
