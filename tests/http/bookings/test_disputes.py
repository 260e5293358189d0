"""Disputes over HTTP: the conversation, its files, reported absence (CONTRACT 10)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import POLICY
from staffbooking_core.operator_inputs import ResolutionOutcome
from staffbooking_core.usecases import due_work
from staffbooking_core.usecases.bookings import disputes
from tests.http.bookings.test_booking_flow import paid, set_clock
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body
from tests.support.pdfs import make_pdf
from tests.support.pictures import METADATA_SECRET, make_exif, make_image_bytes

pytestmark = pytest.mark.anyio

PDF = make_pdf()


async def upload(client: httpx.AsyncClient, path: str, content: bytes = PDF) -> str:
    """The id of an uploaded file."""
    answer = await client.post(f"{path}/dispute/files", files={"file": ("a", content, "")})
    found = json_body(answer, 201)
    assert found.keys() == {"success", "file"}
    return str(found["file"])


async def begun(
    world: HttpDeployment, **given: object
) -> tuple[str, httpx.AsyncClient, httpx.AsyncClient]:
    """A paid booking half an hour after its start: its path, customer and staff member."""
    path, customer, staff = await paid(world, **given)
    await set_clock(world, "2027-03-03T18:30:00Z")
    return path, customer, staff


async def disputed(
    world: HttpDeployment, **given: Any
) -> tuple[str, httpx.AsyncClient, httpx.AsyncClient]:
    """The same, disputed by the customer."""
    path, customer, staff = await begun(world)
    json_body(await customer.post(f"{path}/dispute", json={"reason": "rude", **given}))
    return path, customer, staff


async def dispute_of(client: httpx.AsyncClient, path: str) -> Any:
    return json_body(await client.get(f"{path}/dispute"))["dispute"]


# The conversation -------------------------------------------------------------------------


async def test_a_dispute_is_read_by_all_of_the_booking(each_world: HttpDeployment) -> None:
    """Both parties, whoever booked it, and admins read the same record."""
    path, customer, staff = await begun(each_world)
    file = await upload(customer, path)
    given = {"reason": "Came late.\nLeft early.", "files": [file]}
    json_body(await customer.post(f"{path}/dispute", json=given))
    booker = await each_world.signed_in_client(each_world.subscriber.id)
    admin = await each_world.signed_in_client(each_world.admin.id)
    at = "2027-03-03T18:30:00Z"
    for client in (customer, staff, booker, admin):
        assert json_body(await client.get(f"{path}/dispute")) == {
            "dispute": {
                "opened_by": "customer",
                "opened_at": at,
                "reason": given["reason"],
                "respond_by": "2027-03-06T18:30:00Z",
                "status": "open",
                "statements": [
                    {"by": "customer", "text": given["reason"], "files": [file], "at": at}
                ],
                "resolution": None,
            }
        }


async def test_both_parties_make_statements(world: HttpDeployment) -> None:
    """Statements of both parties are listed in order."""
    path, customer, staff = await disputed(world)
    for client, text in ((staff, "It was the traffic"), (customer, "It was not")):
        answer = await client.post(f"{path}/dispute/statements", json={"text": text})
        found = json_body(answer, 201)
        assert found.keys() == {"success", "dispute"}
    made = [(each["by"], each["text"]) for each in found["dispute"]["statements"]]
    assert made == [
        ("customer", "rude"),
        ("staff", "It was the traffic"),
        ("customer", "It was not"),
    ]


async def test_a_booking_without_dispute_has_none(world: HttpDeployment) -> None:
    """A party of a booking that was never disputed gets 404."""
    path, customer, _ = await paid(world)
    error_body(await customer.get(f"{path}/dispute"), 404, "not_found")


async def test_strangers_find_no_dispute(world: HttpDeployment) -> None:
    """A stranger gets 404 for each call of a dispute."""
    path, customer, _ = await disputed(world)
    file = await upload(customer, path)
    stranger = await world.signed_in_client(world.stranger.id)
    for call in (
        stranger.get(f"{path}/dispute"),
        stranger.get(f"{path}/dispute/files/{file}"),
        stranger.post(f"{path}/dispute/statements", json={}),
        stranger.post(f"{path}/dispute/withdraw"),
        stranger.post(f"{path}/dispute/files", files={"file": PDF}),
        stranger.post(f"{path}/no-show"),
    ):
        error_body(await call, 404, "not_found")


@pytest.mark.parametrize("who", ["subscriber", "admin"])
async def test_who_only_reads_takes_no_part(world: HttpDeployment, who: str) -> None:
    """Whoever booked it, and an admin, get 403 for each call that takes part."""
    path, _, _ = await disputed(world)
    reader = await world.signed_in_client(getattr(world, who).id)
    for call in (
        reader.post(f"{path}/dispute/statements", json={"text": ""}),
        reader.post(f"{path}/dispute/withdraw"),
        reader.post(f"{path}/dispute/files", files={"file": b"none"}),
        reader.post(f"{path}/no-show"),
    ):
        error_body(await call, 403, "wrong_party")


@pytest.mark.parametrize("text", ["", " ", "x" * 5_001, 1, "a\u0000"])
async def test_a_bad_text_is_refused(world: HttpDeployment, text: object) -> None:
    """A reason or statement that is empty, too long or no text is 422 on its field."""
    path, customer, _ = await begun(world)
    answer = await customer.post(f"{path}/dispute", json={"reason": text, "files": [1]})
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"reason", "files.0"}
    answer = await customer.post(f"{path}/dispute/statements", json={"text": text})
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"text"}


async def test_a_text_may_be_long(world: HttpDeployment) -> None:
    """A reason of 5,000 characters is accepted."""
    path, customer, _ = await begun(world)
    json_body(await customer.post(f"{path}/dispute", json={"reason": "x" * 5_000}))


async def test_no_statement_without_a_dispute(world: HttpDeployment) -> None:
    """A statement without an open dispute is 400, before it and after its end."""
    path, customer, _ = await begun(world)
    said = {"text": "hello"}
    answer = await customer.post(f"{path}/dispute/statements", json=said)
    error_body(answer, 400, "booking_not_disputed")
    json_body(await customer.post(f"{path}/dispute", json={"reason": "rude"}))
    json_body(await customer.post(f"{path}/dispute/withdraw"))
    answer = await customer.post(f"{path}/dispute/statements", json=said)
    error_body(answer, 400, "booking_not_disputed")


async def test_statements_are_limited(world: HttpDeployment) -> None:
    """A dispute has at most the policy's number of statements, the reason included."""
    world.restart(policy=evolve(POLICY, max_dispute_statements=2))
    path, customer, staff = await disputed(world)
    json_body(await staff.post(f"{path}/dispute/statements", json={"text": "no"}), 201)
    answer = await customer.post(f"{path}/dispute/statements", json={"text": "yes"})
    error_body(answer, 400, "too_many_statements")


async def test_a_resolution_is_shown(world: HttpDeployment) -> None:
    """A resolved dispute shows the outcome, the refund, the note and the time."""
    path, customer, _ = await disputed(world)
    code = json_body(await customer.get(path))["booking"]["booking_code"]
    outcome = ResolutionOutcome.SPLIT
    await disputes.resolve_dispute(world.ports, code, outcome, 10_000, "half an hour")
    found = await dispute_of(customer, path)
    assert (found["status"], found["resolution"]) == (
        "resolved",
        {
            "outcome": "split",
            "refund_amount": 100.0,
            "note": "half an hour",
            "at": "2027-03-03T18:30:00Z",
        },
    )


async def test_a_chargeback_is_the_customers_dispute(world: HttpDeployment) -> None:
    """A chargeback opens a dispute without a statement, and its verdict resolves it."""
    path, customer, staff = await paid(world)
    code = json_body(await customer.get(path))["booking"]["booking_code"]
    for outcome in ("open", "lost"):
        given = {"booking_code": code, "outcome": outcome}
        json_body(await world.client().post("/sandbox/chargebacks", json=given))
        if outcome == "open":
            answer = await customer.post(f"{path}/dispute/withdraw")
            error_body(answer, 400, "chargeback_open")
    found = await dispute_of(staff, path)
    shown = [found[name] for name in ("opened_by", "reason", "status", "statements")]
    assert shown == ["customer", "chargeback", "resolved", []]
    assert (found["resolution"]["outcome"], found["resolution"]["refund_amount"]) == ("lost", 0)


# Withdrawing ------------------------------------------------------------------------------


async def test_the_opener_withdraws(world: HttpDeployment) -> None:
    """The opener withdraws the dispute, and the booking is paid again."""
    path, customer, staff = await disputed(world)
    error_body(await staff.post(f"{path}/dispute/withdraw"), 403, "wrong_party")
    found = json_body(await customer.post(f"{path}/dispute/withdraw"))
    assert found["success"] is True
    assert (found["dispute"]["status"], found["dispute"]["resolution"]) == ("withdrawn", None)
    booking = json_body(await staff.get(path))["booking"]
    assert (booking["status"], booking["timeline"][-1]["trigger"]) == ("paid", "withdraw")
    error_body(await customer.post(f"{path}/dispute/withdraw"), 400, "booking_not_disputed")


async def test_the_newest_dispute_is_shown(world: HttpDeployment) -> None:
    """A booking that is disputed again shows its newest dispute alone."""
    path, customer, staff = await disputed(world)
    json_body(await customer.post(f"{path}/dispute/withdraw"))
    json_body(await staff.post(f"{path}/dispute", json={"reason": "threatened me"}))
    found = await dispute_of(customer, path)
    assert (found["opened_by"], found["status"]) == ("staff", "open")
    assert [each["text"] for each in found["statements"]] == ["threatened me"]


# Files ------------------------------------------------------------------------------------


async def test_a_pdf_is_read_by_the_parties(each_world: HttpDeployment) -> None:
    """A PDF, uploaded before the dispute, is stored as it is, and saved by browsers."""
    path, customer, staff = await paid(each_world)
    file = await upload(customer, path)
    for client in (customer, staff, await each_world.signed_in_client(each_world.admin.id)):
        answer = await client.get(f"{path}/dispute/files/{file}")
        assert (answer.status_code, answer.content) == (200, PDF)
        assert answer.headers["content-type"] == "application/pdf"
        assert answer.headers["content-disposition"] == 'attachment; filename="file.pdf"'
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
    nobody = await each_world.client().get(f"{path}/dispute/files/{file}")
    assert nobody.status_code == 401


async def test_an_image_is_encoded_anew(world: HttpDeployment) -> None:
    """An image loses its metadata, and is no public image."""
    path, customer, _ = await paid(world)
    file = await upload(customer, path, make_image_bytes("jpeg", exif=make_exif()))
    answer = await customer.get(f"{path}/dispute/files/{file}")
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.headers["content-disposition"] == 'inline; filename="file.jpeg"'
    assert METADATA_SECRET not in answer.content
    for name in (file, f"{file}.jpg", f"{file}.dispute"):
        error_body(await world.client().get(f"/media/{name}"), 404, "not_found")


@pytest.mark.parametrize(
    "content, media",
    [
        (b"", "application/pdf"),
        (b"hello", "application/pdf"),
        (PDF[:-9], "application/pdf"),
        (PDF, "image/png"),
        (make_image_bytes(), "application/pdf"),
        (make_pdf(b"<< /S /JavaScript >>"), "application/pdf"),
    ],
)
async def test_a_bad_file_is_refused(world: HttpDeployment, content: bytes, media: str) -> None:
    """A file that is broken, active or declared as another type is 422 on `file`."""
    path, customer, _ = await paid(world)
    given = {"file": ("a", content, media)}
    answer = await customer.post(f"{path}/dispute/files", files=given)
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"file"}


async def test_a_file_belongs_to_its_booking_and_uploader(world: HttpDeployment) -> None:
    """Files of another booking, of the other party, or unknown ones are 422 on `files`."""
    path, customer, staff = await begun(world)
    other, *_ = await paid(world, event_date="2027-03-09")
    files = [await upload(staff, path), await upload(customer, other), "nothing"]
    for file in files:
        given = {"reason": "rude", "text": "rude", "files": [file]}
        for word in ("dispute", "dispute/statements"):
            answer = await customer.post(f"{path}/{word}", json=given)
            error_body(answer, 422, "invalid_field")
            assert error_fields(answer) == {"files"}
    error_body(await customer.get(f"{path}/dispute/files/{files[1]}"), 404, "not_found")


async def test_unpaid_bookings_take_no_files(world: HttpDeployment) -> None:
    """A file for a booking that can't be disputed yet is 400."""
    made = json_body(
        await world.client_with_key().post("/api/v1/bookings", json=world.request_body()), 201
    )
    customer = await world.signed_in_client(world.customer.id)
    path = f"/bookings/{made['booking']['id']}"
    answer = await customer.post(f"{path}/dispute/files", files={"file": PDF})
    error_body(answer, 400, "booking_not_disputable")


async def test_files_are_limited(world: HttpDeployment) -> None:
    """Each party may upload at most the policy's number of files for a booking."""
    world.restart(policy=evolve(POLICY, max_dispute_files=1))
    path, customer, staff = await paid(world)
    for client in (customer, staff):
        await upload(client, path)
        answer = await client.post(f"{path}/dispute/files", files={"file": PDF})
        error_body(answer, 400, "too_many_files")


# No-show ----------------------------------------------------------------------------------


async def test_an_absence_is_reported(world: HttpDeployment) -> None:
    """A reported absence is a dispute with a priority rebooking."""
    path, customer, staff = await begun(world)
    error_body(await staff.post(f"{path}/no-show"), 403, "wrong_party")
    booking = json_body(await customer.post(f"{path}/no-show"))["booking"]
    assert booking["status"] == "disputed"
    found = await dispute_of(staff, path)
    assert (found["opened_by"], found["reason"]) == ("customer", "no_show")
    assert [each["text"] for each in found["statements"]] == ["no_show"]
    offer = json_body(await customer.get(path))["rebooking"]
    assert offer == {"expires_at": "2027-04-02T18:30:00Z", "companions": []}


async def test_a_withdrawn_absence_takes_its_credit_back(world: HttpDeployment) -> None:
    """The priority rebooking of a withdrawn absence can't be used."""
    path, customer, _ = await begun(world)
    code = json_body(await customer.post(f"{path}/no-show"))["booking"]["booking_code"]
    json_body(await customer.post(f"{path}/dispute/withdraw"))
    assert json_body(await customer.get(path))["rebooking"] is None
    answer = await customer.post("/bookings", json=rebooking(world, code))
    error_body(answer, 400, "rebooking_not_available")


async def test_after_its_use_an_absence_is_not_withdrawn(world: HttpDeployment) -> None:
    """An absence whose priority rebooking was used can't be withdrawn."""
    path, customer, _ = await begun(world)
    code = json_body(await customer.post(f"{path}/no-show"))["booking"]["booking_code"]
    made = json_body(await customer.post("/bookings", json=rebooking(world, code)), 201)
    assert made["booking"]["priority"] is True
    error_body(await customer.post(f"{path}/dispute/withdraw"), 400, "rebooking_used")
    assert (await dispute_of(customer, path))["status"] == "open"


def rebooking(world: HttpDeployment, code: str) -> dict[str, Any]:
    """A customer's own request with the credit of a booking."""
    body = world.request_body(rebooking_of=code, event_date="2027-03-20")
    del body["customer_email"]
    return body


@pytest.mark.parametrize(
    "clock, code",
    [
        ("2027-03-03T18:14:59Z", "no_show_not_open"),
        ("2027-03-04T22:00:01Z", "no_show_not_open"),
    ],
)
async def test_an_absence_out_of_its_time_is_refused(
    world: HttpDeployment, clock: str, code: str
) -> None:
    """Absence before 15 minutes after the start, or 24 hours after the end, is 400."""
    path, customer, _ = await paid(world)
    await set_clock(world, clock)
    error_body(await customer.post(f"{path}/no-show"), 400, code)


async def test_who_checked_in_is_not_absent(world: HttpDeployment) -> None:
    """Absence after a check-in is 400."""
    path, customer, staff = await begun(world)
    json_body(await staff.post(f"{path}/check-in"))
    error_body(await customer.post(f"{path}/no-show"), 400, "already_checked_in")


# Mails ------------------------------------------------------------------------------------


async def mails_after(world: HttpDeployment, *, clock: str) -> list[tuple[int | None, str]]:
    """The recipients and subjects of the mails until a time, without those before."""
    await due_work.run_all_due(world.ports)
    before = len(world.notifier.emails)
    await set_clock(world, clock)
    await due_work.run_all_due(world.ports)
    return [(each.user_id, each.subject) for each in world.notifier.emails[before:]]


async def test_both_are_reminded_and_asked(world: HttpDeployment) -> None:
    """Both parties are reminded a day before the start, and asked 15 minutes after it."""
    path, customer, _ = await paid(world)
    code = json_body(await customer.get(path))["booking"]["booking_code"]
    both = (world.customer.id, world.companion.id)
    assert await mails_after(world, clock="2027-03-02T17:59:59Z") == []
    reminders = await mails_after(world, clock="2027-03-02T18:00:00Z")
    assert reminders == [(each, f"Reminder of booking {code}") for each in both]
    questions = await mails_after(world, clock="2027-03-03T18:15:00Z")
    assert questions == [(each, f"Has booking {code} begun?") for each in both]


async def test_the_other_party_learns_of_a_statement(world: HttpDeployment) -> None:
    """A statement is told to the other party, without its words."""
    path, customer, _ = await disputed(world)
    await due_work.run_all_due(world.ports)
    before = len(world.notifier.emails)
    json_body(await customer.post(f"{path}/dispute/statements", json={"text": "secret"}), 201)
    await due_work.run_all_due(world.ports)
    [mail] = world.notifier.emails[before:]
    assert mail.user_id == world.companion.id
    assert "secret" not in mail.text


async def test_the_staff_member_learns_of_the_reported_absence(world: HttpDeployment) -> None:
    """A reported absence and its withdrawal are told to the staff member."""
    path, customer, _ = await begun(world)
    await due_work.run_all_due(world.ports)
    code = json_body(await customer.post(f"{path}/no-show"))["booking"]["booking_code"]
    json_body(await customer.post(f"{path}/dispute/withdraw"))
    await due_work.run_all_due(world.ports)
    told = [each.subject for each in world.notifier.emails if each.user_id == world.companion.id]
    assert told[-2:] == [
        f"Reported absence, booking {code}",
        f"Dispute about booking {code} withdrawn",
    ]
