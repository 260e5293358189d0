"""Calls of families of endpoints with valid and invalid input, for tests that check every response
against the document."""

from __future__ import annotations

from typing import Any

from staffbooking_adapters.testing.builders import HOUR, add_booking, add_user
from staffbooking_adapters.testing.builders_portfolio import add_portfolio_item
from staffbooking_adapters.testing.builders_reviews import add_review
from staffbooking_adapters.testing.builders_webhooks import add_endpoint
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.usecases.notifications import notifications
from tests.http.deployment import BASE_URL, TEST_PASSWORD, HttpDeployment
from tests.support.ics import make_ics_calendar, make_ics_hour
from tests.support.pdfs import make_pdf
from tests.support.pictures import make_image_bytes


async def exercise_staff_endpoints(world: HttpDeployment) -> None:
    """Call the profile, hours and portfolio endpoints as new staff and as a customer."""
    hours = [{"weekday": 0, "start": "09:00", "end": "24:00"}]
    days = [{"date": "2027-03-03", "slots": [{"start": "09:00", "end": "12:00"}]}]
    item = {"title": "A ball", "image": "photos/1.jpg"}
    wanted: dict[str, Any] = {
        "/staff/profile": ({}, {"bio": 1}, {"hourly_rate": 40.5, "daily_rate": None}),
        "/staff/availability": (
            {},
            {"timezone": "Mars"},
            {"timezone": "UTC", "weekly": hours, "overrides": days},
        ),
        "/staff/portfolio": ({}, {**item, "title": ""}, item),
    }
    newcomer = await add_user(world.store, role=Role.STAFF)
    for who in (newcomer.id, world.customer.id):
        browser = await world.signed_in_client(who)
        for path, bodies in wanted.items():
            method = "POST" if path == "/staff/portfolio" else "PUT"
            for _ in range(2):
                await browser.get(path)
                for body in bodies:
                    await browser.request(method, path, json=body)
        for one in (await browser.get("/staff/portfolio")).json().get("items", [{"id": 999}]):
            for _ in range(2):
                await browser.delete(f"/staff/portfolio/{one['id']}")


async def exercise_calendar_endpoints(world: HttpDeployment) -> None:
    """Call the calendar feed and busy time endpoints as a companion and as a customer."""
    for who in (world.companion.id, world.customer.id):
        browser = await world.signed_in_client(who)
        made = (await browser.post("/staff/calendar-feed")).json()
        path = made.get("url", f"{BASE_URL}/calendars/nothing.ics").removeprefix(BASE_URL)
        for _ in range(2):
            await browser.get("/staff/calendar-feed")
            tag = (await world.client().get(path)).headers.get("etag", "")
            await world.client().get(path, headers={"if-none-match": tag})
            await browser.delete("/staff/calendar-feed")
        for content in (make_ics_calendar(make_ics_hour()), b"hello", b"x" * 2_000_000):
            for media in ("text/calendar", "text/plain"):
                headers = {"content-type": media}
                await browser.post("/staff/busy-times", content=content, headers=headers)
            await browser.get("/staff/busy-times")
        await browser.delete("/staff/busy-times")


async def exercise_image_endpoints(world: HttpDeployment) -> None:
    """Call the image endpoints with valid and invalid files as a companion and as a customer, and
    the public image addresses."""
    for who in (world.companion.id, world.customer.id):
        browser, path = await world.signed_in_client(who), "/staff/images"
        for name, content in (("file", make_image_bytes()), ("file", b"none"), ("other", b"none")):
            await browser.post(path, files={name: ("a.png", content, "image/png")})
        await browser.post(path, content=b"none")
        await browser.post(path, content=b"x" * 11_000_000)
        broken = {"content-type": "multipart/form-data; boundary=line"}
        await browser.post(path, content=b"--line", headers=broken)
        for image in (await browser.get(path)).json().get("images", [{"name": "none.jpg"}]):
            shown = await world.client().get(f"/media/{image['name']}")
            known = {"if-none-match": shown.headers.get("etag", "")}
            await world.client().get(f"/media/{image['name']}", headers=known)
            for _ in range(2):
                await browser.delete(f"{path}/{image['name']}")


async def exercise_dispute_endpoints(world: HttpDeployment, path: str) -> None:
    """Files, a dispute with statements, a resolution and a second dispute of a booking that was
    accepted; and what nobody may."""
    booking = await add_booking(
        world.store,
        world.companion,
        world.customer,
        status=BookingStatus.PAID,
        starts_at=world.clock.now - HOUR,
        ends_at=world.clock.now + HOUR,
    )
    people = (world.customer.id, world.companion.id, world.admin.id, world.stranger.id)
    for target in (path, f"/bookings/{booking.id}"):
        for who in people:
            browser = await world.signed_in_client(who)
            for content in (make_image_bytes(), make_pdf(), b"none"):
                made = await browser.post(f"{target}/dispute/files", files={"file": content})
                known = made.json().get("file", "none")
                await browser.get(f"{target}/dispute/files/{known}")
            for files in ([known], ["none"], 1):
                said = {"reason": "late", "text": "sorry", "files": files}
                await browser.post(f"{target}/dispute", json=said)
                await browser.get(f"{target}/dispute")
                await browser.post(f"{target}/dispute/statements", json=said)
    for who in people:
        browser = await world.signed_in_client(who)
        await browser.post(f"/bookings/{booking.id}/dispute/withdraw")
        await browser.post(f"/bookings/{booking.id}/no-show")
        await browser.get(f"/bookings/{booking.id}/dispute")


async def exercise_account_endpoints(world: HttpDeployment) -> None:
    """Call the account, password, session, verification and contact endpoints with valid and
    invalid input."""
    client, owner = world.client(), await world.signed_in_client(world.customer.id)
    await owner.get("/account/notifications")
    for choice in ({"payout": False}, {"payout": 1}):
        await owner.put("/account/notifications", json={"notifications": choice})
    for current in ("wrong", TEST_PASSWORD):
        given = {"current_password": current, "new_password": "battery staple"}
        await owner.post("/auth/password", json=given)
    await owner.get("/auth/sessions")
    await owner.delete("/auth/sessions/nothing")
    await owner.delete("/auth/sessions")
    await owner.post("/auth/verification")
    for email in (world.customer.email, "no address"):
        await client.post("/auth/forgot-password", json={"email": email})
    forged = {"token": "forged", "password": "battery staple"}
    await client.post("/auth/reset-password", json=forged)
    await client.post("/auth/verify-email", json=forged)
    await notifications.send_notifications(world.ports)
    tokens = [(letter.url or "").rpartition("/")[2] for letter in world.notifier.emails]
    for token in tokens:
        await client.post("/auth/reset-password", json={**forged, "token": token})
        await client.post("/auth/verify-email", json={"token": token})
    await (await world.signed_in_client(world.companion.id)).get("/account/export")
    for who, password in ((world.customer, "wrong"), (world.customer, "battery staple")):
        browser = await world.signed_in_client(who.id)
        await browser.get("/account/export")
        await browser.post("/account/erase", json={"password": password})
    await client.post("/contact", json={"name": "Sam", "email": "sam@example.com"})
    question = {"name": "Sam", "email": "sam@example.com", "message": "How much?"}
    await client.post("/contact", json=question)


async def exercise_admin_endpoints(world: HttpDeployment) -> None:
    """Call the operators' endpoints as an admin, with valid and invalid input, and as a
    customer."""
    booking = await add_booking(world.store, world.companion, world.customer)
    review = await add_review(world.store, booking)
    item = await add_portfolio_item(world.store, world.companion.id)
    hook = await add_endpoint(world.store, world.subscriber, vault=world.ports.vault)
    changes = {
        f"companions/{world.companion.id}": ("reject", "approve"),
        f"portfolio/{item.id}": ("approve", "reject"),
        f"reviews/{review.id}": ("hide", "show"),
        f"webhooks/{hook.id}": ("disable", "enable"),
        f"people/{world.outsider.id}": ("disable", "enable"),
        f"disputes/{booking.code}": ("resolve",),
        f"payouts/{booking.code}": ("hold", "release", "retry"),
        f"refunds/{booking.code}": ("retry",),
        "people/999": ("disable",),
    }
    bodies: tuple[dict[str, str], ...] = ({}, {"reason": ""}, {"reason": "x", "outcome": "refund"})
    for who in (world.admin.id, world.customer.id):
        browser = await world.signed_in_client(who)
        for path, acts in changes.items():
            for act in acts:
                for body in bodies:
                    await browser.post(f"/api/admin/{path}/{act}", json=body)
        for name in (*ADMIN_LISTS, "people?limit=0", f"ledger/{booking.code}", "ledger/BK"):
            await browser.get(f"/api/admin/{name}")


ADMIN_LISTS = (
    *("disputes", "payouts", "refunds", "companions", "portfolio"),
    *("people", "reviews", "webhooks", "alerts", "audit"),
)
