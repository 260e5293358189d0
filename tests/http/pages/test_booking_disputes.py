"""Tests of the page of a dispute: its form with a file, and the conversation of both sides."""

from __future__ import annotations

import re

import httpx
import pytest
from attrs import evolve

from tests.http.bookings.test_booking_flow import paid, set_clock
from tests.http.deployment import HttpDeployment, json_body
from tests.http.pages.test_bookings import AFTER, press, read, status
from tests.support.html_pages import page_forms, page_text
from tests.support.pictures import make_image_bytes

pytestmark = pytest.mark.anyio

SCRIPT = ("x.png", b"<script>", "image/png")


async def over(world: HttpDeployment) -> tuple[str, httpx.AsyncClient, httpx.AsyncClient]:
    """A paid booking after its event: its path and the clients of its parties."""
    path, customer, staff = await paid(world)
    await set_clock(world, AFTER)
    return path, customer, staff


async def state(
    client: httpx.AsyncClient, path: str, text: str, file: tuple[str, bytes, str] | None = None
) -> httpx.Response:
    """Submit the form of the page as a browser does, without the API's header: without a chosen
    file, it sends an empty one."""
    shown = page_forms((await client.get(f"{path}/problem")).text)
    [form] = [each for each in shown if each.action.endswith("/problem")]
    client.headers.pop("x-csrf-token", None)
    data = {**form.fields, "text": text}
    if file is not None:
        return await client.post(form.action, data=data, files={"file": file})
    parts = [f'name="{name}"\r\n\r\n{value}' for name, value in data.items()]
    parts.append('name="file"; filename=""\r\nContent-Type: application/octet-stream\r\n\r\n')
    body = "".join(f"--edge\r\nContent-Disposition: form-data; {part}\r\n" for part in parts)
    media_type = "multipart/form-data; boundary=edge"
    return await client.post(
        form.action, content=f"{body}--edge--\r\n".encode(), headers={"content-type": media_type}
    )


async def test_both_sides_tell_and_read(each_world: HttpDeployment) -> None:
    """The customer opens a dispute with a picture; both read it, the staff member answers, and
    both read the answer."""
    path, customer, staff = await over(each_world)
    picture = ("x.png", make_image_bytes(), "image/png")
    sent = await state(customer, path, "Closed early,\r\n<b>and rude", picture)
    assert (sent.status_code, sent.headers["location"]) == (303, f"{path}/return#dispute")
    assert await status(customer, path) == "disputed"
    for side, until in ((customer, "Both sides are heard until"), (staff, "Answer the dispute by")):
        shown = (await side.get(f"{path}/return")).text
        assert "Closed early, <b>and rude" in page_text(shown)
        assert f"{until} 6 Mar 2027, 22:00 (UTC)" in page_text(shown)
        [address] = re.findall(r'src="([^"]*/dispute/files/[^"]*)"', shown)
        assert (await side.get(address)).headers["content-type"] == "image/png"
    assert (await state(staff, path, "They asked me to")).status_code == 303
    assert "They asked me to" in await read(customer, path)
    assert (await press(customer, f"{path}/return", "withdraw")).status_code == 303
    assert "The dispute was withdrawn." in await read(staff, path)
    assert await status(customer, path) == "paid"


@pytest.mark.parametrize("text", ["", " \n", "x" * 5001])
async def test_what_is_no_text_stays_in_the_form(world: HttpDeployment, text: str) -> None:
    """An invalid text is told at its field, stays in it, and opens nothing."""
    path, customer, _ = await over(world)
    for file in (None, ("x.png", make_image_bytes(), "image/png")):
        refused = await state(customer, path, text, file)
        assert refused.status_code in (400, 422)
        assert 'id="e-text"' in refused.text
        assert f">\n{text}</textarea>" in refused.text
    assert await status(customer, path) == "paid"


async def test_a_file_that_lies_loses_no_text(world: HttpDeployment) -> None:
    """A file of another type is told at its field; the text stays, and nothing is opened."""
    path, customer, _ = await over(world)
    refused = await state(customer, path, "Closed early", SCRIPT)
    assert refused.status_code == 422
    assert 'id="e-file"' in refused.text
    assert ">\nClosed early</textarea>" in refused.text
    assert await status(customer, path) == "paid"


async def test_a_file_that_is_too_large_loses_no_text(world: HttpDeployment) -> None:
    """The size is told at the field of the file, and the text stays."""
    world.restart(policy=evolve(world.ports.policy, max_image_bytes=2_000_000))
    path, customer, _ = await over(world)
    large = ("x.png", b"x" * 2_000_001, "image/png")
    refused = await state(customer, path, "Closed early", large)
    assert refused.status_code == 413
    assert "Choose a smaller file, of at most 2 MB." in refused.text
    assert ">\nClosed early</textarea>" in refused.text


async def test_a_statement_sent_twice_is_made_once(world: HttpDeployment) -> None:
    """The same form submitted again, by a double click or after Back, makes nothing new; other
    words do."""
    path, customer, staff = await over(world)
    await state(customer, path, "Closed early")
    [form] = [
        each
        for each in page_forms((await staff.get(f"{path}/problem")).text)
        if each.action.endswith("/problem")
    ]
    staff.headers.pop("x-csrf-token", None)
    for text in ("They asked me to", "They asked me to", "And paid me"):
        answer = await staff.post(form.action, data={**form.fields, "text": text})
        assert answer.status_code == 303
    made = json_body(await staff.get(f"{path}/dispute"))["dispute"]["statements"]
    assert [each["text"] for each in made] == ["Closed early", "They asked me to", "And paid me"]


async def test_a_later_dispute_may_repeat_a_text(world: HttpDeployment) -> None:
    """After a withdrawal, the texts of the earlier dispute open another one and are stated in
    it."""
    path, customer, _ = await over(world)
    for _ in range(3):
        for text in ("Closed early", "I want half of it back"):
            assert (await state(customer, path, text)).status_code == 303
        made = json_body(await customer.get(f"{path}/dispute"))["dispute"]["statements"]
        assert [each["text"] for each in made] == ["Closed early", "I want half of it back"]
        await press(customer, f"{path}/return", "withdraw")
        assert await status(customer, path) == "paid"


async def read_form(client: httpx.AsyncClient, path: str) -> tuple[str, dict[str, str]]:
    """The address and the fields of the statement form on the page of a booking."""
    shown = page_forms((await client.get(f"{path}/return")).text)
    [form] = [each for each in shown if each.action.endswith("/problem")]
    client.headers.pop("x-csrf-token", None)
    return form.action, form.fields


async def test_an_answer_after_the_withdrawal_opens_nothing(each_world: HttpDeployment) -> None:
    """An answer to a withdrawn dispute is refused with its text in the form that opens a dispute,
    which opens one when it is sent."""
    path, customer, staff = await over(each_world)
    await state(customer, path, "Closed early")
    action, fields = await read_form(staff, path)
    await press(customer, f"{path}/return", "withdraw")
    late = await staff.post(action, data={**fields, "text": "They asked me to"})
    assert late.status_code == 400
    assert "The dispute that this answers has ended." in page_text(late.text)
    assert await status(customer, path) == "paid"
    [form] = [each for each in page_forms(late.text) if each.action.endswith("/problem")]
    assert ">\nThey asked me to</textarea>" in late.text
    assert "Open a dispute" in page_text(late.text)
    chosen = await staff.post(action, data={**form.fields, "text": "They asked me to"})
    assert chosen.status_code == 303
    assert json_body(await staff.get(f"{path}/dispute"))["dispute"]["opened_by"] == "staff"


async def test_an_answer_after_the_decision_opens_nothing(world: HttpDeployment) -> None:
    """An answer to a decided dispute is refused, and the booking stays completed."""
    path, customer, _ = await over(world)
    await state(customer, path, "Closed early")
    action, fields = await read_form(customer, path)
    admin = await world.signed_in_client(world.admin.id)
    code = json_body(await customer.get(path))["booking"]["booking_code"]
    decision = {"outcome": "release", "reason": "agreed", "note": "x"}
    await admin.post(f"/api/admin/disputes/{code}/resolve", json=decision)
    late = await customer.post(action, data={**fields, "text": "One more thing"})
    assert (late.status_code, await status(customer, path)) == (400, "completed")


async def test_an_answer_is_stated_in_no_later_dispute(world: HttpDeployment) -> None:
    """An answer to a withdrawn dispute is not stated in the one that is open now; its text stays in
    the form."""
    path, customer, staff = await over(world)
    await state(customer, path, "Closed early")
    action, fields = await read_form(staff, path)
    await press(customer, f"{path}/return", "withdraw")
    await state(customer, path, "They were rude")
    late = await staff.post(action, data={**fields, "text": "They asked me to"})
    assert (late.status_code, ">\nThey asked me to</textarea>" in late.text) == (400, True)
    made = json_body(await staff.get(f"{path}/dispute"))["dispute"]["statements"]
    assert [each["text"] for each in made] == ["They were rude"]


async def test_a_form_that_opens_joins_the_dispute_of_the_other(world: HttpDeployment) -> None:
    """The form that opens a dispute makes a statement where the other side has opened one."""
    path, customer, staff = await over(world)
    shown = page_forms((await staff.get(f"{path}/problem")).text)
    [form] = [each for each in shown if "after" in each.fields]
    await state(customer, path, "Closed early")
    staff.headers.pop("x-csrf-token", None)
    sent = await staff.post(form.action, data={**form.fields, "text": "They were rude"})
    assert sent.status_code == 303
    made = json_body(await staff.get(f"{path}/dispute"))["dispute"]["statements"]
    assert [each["text"] for each in made] == ["Closed early", "They were rude"]


async def test_a_text_survives_the_end_of_its_session(world: HttpDeployment) -> None:
    """A form with a file that comes after the session ended is kept without its file, whatever the
    file's size, and is taken once its author has signed in."""
    path, customer, _ = await over(world)
    for content in (b"x", b"x" * 200_000):
        files = {"file": ("x.png", content, "image/png")}
        data = {"csrf": "x", "text": "Closed early", "after": "new-"}
        late = await world.client().post(f"{path}/problem", data=data, files=files)
        assert late.status_code == 401
        assert "text=Closed+early" in late.text
    token = json_body(await customer.get("/auth/session"))["csrf_token"]
    customer.headers.pop("x-csrf-token", None)
    kept = {"csrf": token, "text": "Closed early", "after": "new-"}
    assert (await customer.post(f"{path}/problem", data=kept)).status_code == 303
    assert await status(customer, path) == "disputed"


async def test_the_page_is_for_those_who_may_dispute(world: HttpDeployment) -> None:
    """Before the event there is no form; others are led to the booking, and forged forms are
    rejected."""
    path, customer, _ = await paid(world)
    shown = await customer.get(f"{path}/problem")
    assert (shown.status_code, shown.headers["location"]) == (303, f"{path}/return")
    token = json_body(await customer.get("/auth/session"))["csrf_token"]
    given = {"csrf": token, "text": "Closed early", "after": "new-"}
    early = await customer.post(f"{path}/problem", data=given)
    assert (early.status_code, "Closed early</textarea>" in early.text) == (400, True)
    await set_clock(world, AFTER)
    assert (await customer.post(f"{path}/problem", data={"text": "x"})).status_code == 403
    booker = await world.signed_in_client(world.subscriber.id)
    assert (await booker.get(f"{path}/problem")).status_code == 303
    token = json_body(await booker.get("/auth/session"))["csrf_token"]
    forged = await booker.post(f"{path}/problem", data={**given, "csrf": token})
    assert forged.status_code == 403
    assert await status(customer, path) == "paid"
