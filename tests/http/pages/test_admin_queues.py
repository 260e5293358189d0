"""Operators work through approvals, reviews, inquiries and silent endpoints, each with a reason."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import NOW, add_booking, add_companion, add_user
from staffbooking_adapters.testing.builders_portfolio import add_portfolio_item
from staffbooking_adapters.testing.builders_reviews import add_review
from staffbooking_adapters.testing.builders_webhooks import add_endpoint
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.domain.notifications.inquiries import NewInquiry
from staffbooking_core.usecases.accounts import audit
from staffbooking_core.usecases.companions import approvals, reviews
from staffbooking_core.usecases.notifications import inquiries
from tests.http.deployment import HttpDeployment
from tests.http.pages.test_admin_people import submit
from tests.http.pages.test_bookings import PEOPLE
from tests.support.html_pages import page_forms, page_text

pytestmark = pytest.mark.anyio

REASON = "Looked at it"


async def audited(world: HttpDeployment) -> tuple[Any, ...]:
    """By whom, what, to whom and why of the newest entry."""
    entry = (await audit.list_audit_entries(world.ports))[0]
    return (entry.actor_id, entry.act, entry.subject, entry.subject_id, entry.reason)


async def shown(client: httpx.AsyncClient, path: str) -> str:
    page = await client.get(path, headers=PEOPLE)
    assert page.status_code == 200, page.text
    return page_text(page.text)


async def approval_of(world: HttpDeployment, companion_id: int) -> Approval:
    async with world.store.read_view() as view:
        companion = await view.companions.companion(companion_id)
    assert companion is not None
    return companion.approval


# Approvals ------------------------------------------------------------------------------


async def test_profiles_are_approved_one_after_the_other(each_world: HttpDeployment) -> None:
    """The decision leads to the next profile that waits, at last to the empty list."""
    admin = await each_world.signed_in_client(each_world.admin.id)
    assert "Nothing waits" in await shown(admin, "/admin/approvals")
    first, second = [
        await add_companion(each_world.store, approval=Approval.PENDING) for _ in range(2)
    ]
    paths = [f"/admin/approvals/people/{each.id}" for each in (first, second)]
    text = (await admin.get("/admin/approvals")).text
    assert all(f'href="{path}"' in text for path in paths)
    done = await submit(admin, paths[0], reason=REASON, act="approve")
    assert (done.status_code, done.headers["location"]) == (303, f"{paths[1]}?approved")
    assert "This is the next one." in await shown(admin, done.headers["location"])
    assert await audited(each_world) == (
        *(each_world.admin.id, "approve", "companion"),
        *(str(first.id), REASON),
    )
    done = await submit(admin, paths[1], reason=REASON, act="reject")
    assert done.headers["location"] == "/admin/approvals?rejected"
    assert await approval_of(each_world, first.id) is Approval.APPROVED
    assert await approval_of(each_world, second.id) is Approval.SUSPENDED


async def test_a_draft_is_not_approved(world: HttpDeployment) -> None:
    """What a profile lacks is said in words, there is no button, and a forged form is refused."""
    admin = await world.signed_in_client(world.admin.id)
    draft = await add_companion(
        world.store, approval=Approval.PENDING, hourly_rate=0, service_types=()
    )
    path = f"/admin/approvals/people/{draft.id}"
    assert "Missing: the price, the services." in await shown(admin, path)
    assert 'value="approve"' not in (await admin.get(path)).text
    refused = await submit(admin, path, reason=REASON, act="approve")
    assert (refused.status_code, "not complete yet" in refused.text) == (400, True)
    assert await approval_of(world, draft.id) is Approval.PENDING
    newcomer = await add_user(world.store, role=Role.STAFF)
    text = (await admin.get(f"/admin/approvals/people/{newcomer.id}")).text
    assert ("complete yet" in text, 'name="reason"' in text) == (True, False)


async def test_pictures_are_decided_with_a_reason_for_their_owner(
    each_world: HttpDeployment,
) -> None:
    """A refused picture keeps the reason, and the next one follows."""
    admin = await each_world.signed_in_client(each_world.admin.id)
    items = [await add_portfolio_item(each_world.store, each_world.companion.id) for _ in range(2)]
    for item in items:
        await approvals.moderate_item(each_world.ports, item.id, PortfolioItemStatus.PENDING)
    paths = [f"/admin/approvals/pictures/{each.id}" for each in items]
    assert items[0].title in await shown(admin, paths[0])
    done = await submit(admin, paths[0], reason="Too dark", act="reject")
    assert done.headers["location"] == f"{paths[1]}?rejected"
    done = await submit(admin, paths[1], reason=REASON, act="approve")
    assert done.headers["location"] == "/admin/approvals?approved"
    async with each_world.store.read_view() as view:
        refused = await view.portfolio.portfolio_item(items[0].id)
        approved = await view.portfolio.portfolio_item(items[1].id)
    assert refused is not None
    assert approved is not None
    assert (refused.status, refused.rejection) == (PortfolioItemStatus.REJECTED, "Too dark")
    assert (approved.status, approved.rejection) == (PortfolioItemStatus.APPROVED, "")


async def test_a_decision_of_another_operator_stands(each_world: HttpDeployment) -> None:
    """A form that was loaded before another operator decided is refused, and the page shows the
    decision; the same form submitted twice is not."""
    admin = await each_world.signed_in_client(each_world.admin.id)
    companion = await add_companion(each_world.store, approval=Approval.PENDING)
    item = await add_portfolio_item(each_world.store, companion.id)
    await approvals.moderate_item(each_world.ports, item.id, PortfolioItemStatus.PENDING)
    for path in (f"people/{companion.id}", f"pictures/{item.id}"):
        address = f"/admin/approvals/{path}"
        [form] = page_forms((await admin.get(address)).text)
        given = {"shown": form.fields["shown"], "reason": REASON}
        for _ in range(2):
            done = await submit(admin, address, **given, act="reject")
            assert done.status_code == 303
        late = await submit(admin, address, **given, act="approve")
        assert late.status_code == 400
        assert "Somebody has decided this meanwhile" in page_text(late.text)
        assert 'value="reject"' not in late.text
        assert (await audited(each_world))[1] == "reject"
    assert await approval_of(each_world, companion.id) is Approval.SUSPENDED
    assert (await approvals.get_portfolio_item(each_world.ports, item.id)).status == "rejected"


# Reviews --------------------------------------------------------------------------------


async def test_a_hidden_review_leaves_the_rating(each_world: HttpDeployment) -> None:
    """A review is hidden with a reason, is listed among the hidden ones, and shown again."""
    admin = await each_world.signed_in_client(each_world.admin.id)
    booking = await add_booking(each_world.store, each_world.companion, each_world.customer)
    review = await add_review(each_world.store, booking)
    path = f"/admin/reviews/{review.id}"

    async def ratings() -> int:
        _, found = await reviews.list_reviews_of(each_world.ports, each_world.companion.id, 1, 9)
        return found.total_reviews

    assert f'href="{path}"' in (await admin.get("/admin/reviews?only=visible")).text
    done = await submit(admin, path, reason=REASON, act="hide")
    assert (done.status_code, done.headers["location"]) == (303, "/admin/reviews?hide")
    assert await ratings() == 0
    again = await submit(admin, path, reason=REASON, act="hide")
    assert again.status_code == 303
    assert await ratings() == 0
    assert f'href="{path}"' in (await admin.get("/admin/reviews?only=hidden")).text
    assert f'href="{path}"' not in (await admin.get("/admin/reviews?only=visible")).text
    await submit(admin, path, reason="It was right", act="show")
    assert await ratings() == 1
    assert (await audited(each_world))[1:] == ("show", "review", str(review.id), "It was right")


# Inquiries ------------------------------------------------------------------------------


async def test_an_inquiry_is_answered_once(each_world: HttpDeployment) -> None:
    """An inquiry is marked with a note, leaves the list of what waits, and keeps its answer."""
    admin = await each_world.signed_in_client(each_world.admin.id)
    new = NewInquiry("Ann <b>", "ann@x.test", "", "When do you open?", NOW)
    made = await each_world.store.run_transaction(lambda tx: tx.notifications.add_inquiry(new))
    path = f"/admin/inquiries/{made.id}"
    assert "Ann <b>" in await shown(admin, "/admin/inquiries")
    text = (await admin.get(path)).text
    assert "mailto:ann%40x.test?subject=Your%20inquiry" in text
    empty = await submit(admin, path)
    assert (empty.status_code, "Note" in empty.text, 'id="e-reason"' in empty.text) == (
        *(400, True),
        True,
    )
    done = await submit(admin, path, reason="Answered by phone")
    assert done.headers["location"] == "/admin/inquiries?answered"
    assert "Nothing to answer" in await shown(admin, "/admin/inquiries")
    assert "Answered by phone" in await shown(admin, path)
    assert "Ann <b>" in await shown(admin, "/admin/inquiries?only=answered")
    late = await submit(admin, path, reason="Answered twice")
    assert (late.status_code, "already" in late.text) == (400, True)
    inquiry, operator = await inquiries.get_inquiry(each_world.ports, made.id)
    assert (inquiry.note, operator) == ("Answered by phone", each_world.admin)
    assert (await audited(each_world))[1:4] == ("answer", "inquiry", str(made.id))


# Endpoints ------------------------------------------------------------------------------


async def test_a_disabled_endpoint_is_enabled(each_world: HttpDeployment) -> None:
    """A disabled endpoint is listed with its owner and since when, and enabled with a reason."""
    admin = await each_world.signed_in_client(each_world.admin.id)
    assert "All receivers answer" in await shown(admin, "/admin/endpoints")
    made = await add_endpoint(each_world.store, each_world.subscriber)
    silent = evolve(made, active=False, disabled_at=NOW, consecutive_failures=20)
    await each_world.store.run_transaction(lambda tx: tx.webhooks.save_endpoints([silent]))
    listed = await shown(admin, "/admin/endpoints")
    for words in (made.url, each_world.subscriber.email, "after 20 failed deliveries in a row"):
        assert words in listed
    path = f"/admin/endpoints/{made.id}"
    assert "Enable the endpoint" in await shown(admin, path)
    done = await submit(admin, path, reason=REASON, act="enable")
    assert (done.status_code, done.headers["location"]) == (303, "/admin/endpoints?enable")
    async with each_world.store.read_view() as view:
        endpoint = await view.webhooks.endpoint(made.id)
    assert endpoint is not None
    assert (endpoint.active, endpoint.consecutive_failures) == (True, 0)
    assert await audited(each_world) == (
        *(each_world.admin.id, "enable", "webhook"),
        *(str(made.id), REASON),
    )
    assert (await submit(admin, path, reason=REASON, act="disable")).status_code == 303


# All of them ----------------------------------------------------------------------------


async def test_forms_name_all_their_faults(world: HttpDeployment) -> None:
    """A form without its fields, or with others than it has, changes nothing and is shown again."""
    admin = await world.signed_in_client(world.admin.id)
    booking = await add_booking(world.store, world.companion, world.customer)
    review = await add_review(world.store, booking)
    item = await add_portfolio_item(world.store, world.companion.id)
    endpoint = await add_endpoint(world.store, world.subscriber)
    for path in (
        f"/admin/approvals/people/{world.companion.id}",
        f"/admin/approvals/pictures/{item.id}",
        f"/admin/reviews/{review.id}",
        f"/admin/endpoints/{endpoint.id}",
    ):
        wrong: tuple[dict[str, str], ...] = (
            {},
            {"act": "burn"},
            {"reason": "x" * 301, "act": "burn"},
            {"reason": "\u2067x", "act": "approve"},
        )
        for given in wrong:
            refused = await submit(admin, path, **given)
            assert refused.status_code in (400, 422), (path, given)
            assert 'id="e-reason"' in refused.text, (path, given)
        forged = await submit(admin, path, csrf="x", reason=REASON)
        assert forged.status_code == 403
    assert list(await audit.list_audit_entries(world.ports)) == []


@pytest.mark.parametrize("section", ["approvals/people", "reviews", "inquiries", "endpoints"])
async def test_they_are_for_operators(world: HttpDeployment, section: str) -> None:
    """Others find neither lists nor forms, and what does not exist is 404 for operators too."""
    customer = await world.signed_in_client(world.customer.id)
    admin = await world.signed_in_client(world.admin.id)
    for path in (f"/admin/{section.partition('/')[0]}", f"/admin/{section}/1"):
        assert (await customer.get(path, headers=PEOPLE)).status_code == 404
    assert (await submit(customer, f"/admin/{section}/1", reason=REASON)).status_code == 404
    for number in ("999999", "0", "x", "9" * 30):
        assert (await admin.get(f"/admin/{section}/{number}", headers=PEOPLE)).status_code == 404


@pytest.mark.parametrize(
    "query", ["reviews?only=best", "reviews?before=x", "inquiries?only=1", "endpoints?before=0"]
)
async def test_an_unknown_filter_is_refused(world: HttpDeployment, query: str) -> None:
    """A filter that no page offers is refused with a sentence."""
    admin = await world.signed_in_client(world.admin.id)
    assert (await admin.get(f"/admin/{query}", headers=PEOPLE)).status_code == 422
