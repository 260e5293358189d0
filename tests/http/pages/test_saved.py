"""Tests of saved people."""

from __future__ import annotations

import httpx
import pytest

from staffbooking_adapters.testing.builders import add_user
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.usecases.companions import saved
from tests.http.deployment import HttpDeployment, json_body
from tests.http.pages.test_bookings import PEOPLE

pytestmark = pytest.mark.anyio

SAVED = "/saved"


async def page_client(world: HttpDeployment, user_id: int) -> httpx.AsyncClient:
    client = await world.signed_in_client(user_id)
    client.headers.update(PEOPLE)
    return client


async def send(
    client: httpx.AsyncClient, path: str, companion: object, csrf: str = ""
) -> httpx.Response:
    csrf = csrf or json_body(await client.get("/auth/session"))["csrf_token"]
    return await client.post(path, data={"csrf": csrf, "companion": str(companion)})


async def test_a_person_is_saved_and_taken_off(each_world: HttpDeployment) -> None:
    """The profile's button saves; the list shows the person, and its button takes them off."""
    client, staff = await page_client(each_world, each_world.customer.id), each_world.companion
    assert "Nobody saved yet" in (await client.get(SAVED)).text
    profile = f"/companions/{staff.id}"
    assert "Save for later" in (await client.get(profile)).text
    sent = await send(client, f"{SAVED}?next={profile}", staff.id)
    assert (sent.status_code, sent.headers["location"]) == (303, profile)
    assert 'aria-pressed="true"' in (await client.get(profile)).text.partition("<footer")[0]
    assert f'href="{profile}"' in (await client.get(SAVED)).text
    kept = json_body(await client.get("/account/export"))["saved_people"]
    assert [each["companion_id"] for each in kept] == [staff.id]
    gone = await send(client, f"{SAVED}/removal", staff.id)
    shown = (await client.get(gone.headers["location"])).text
    assert "Taken off your list." in shown
    assert "Nobody saved yet" in shown


@pytest.mark.parametrize(
    ("companion", "status"),
    [("999999", 404), ("0", 422), ("x", 422), ("", 400), ("9" * 40, 422), ("\u202e1", 422)],
)
async def test_who_does_not_exist_is_not_saved(
    world: HttpDeployment, companion: str, status: int
) -> None:
    """Forged ids are told as errors, and nothing is saved."""
    client = await page_client(world, world.customer.id)
    assert (await send(client, SAVED, companion)).status_code == status
    assert await saved.list_saved(world.ports, world.customer.id, 1, 10) == []


async def test_only_customers_save(world: HttpDeployment) -> None:
    """Staff members have no list, and no button."""
    client = await page_client(world, world.companion.id)
    assert (await client.get(SAVED)).status_code == 403
    assert (await send(client, SAVED, world.companion.id)).status_code == 403
    assert "Save for later" not in (await client.get(f"/companions/{world.companion.id}")).text


async def test_a_form_of_somebody_else_saves_nothing(world: HttpDeployment) -> None:
    """A form without the session's token is refused."""
    client = await page_client(world, world.customer.id)
    assert (await send(client, SAVED, world.companion.id, "forged")).status_code == 403


async def test_who_is_signed_out_signs_in_first(world: HttpDeployment) -> None:
    """The list leads to the sign-in and back."""
    answer = await world.client().get(SAVED, headers=PEOPLE)
    assert httpx.URL(answer.headers["location"]).params["next"] == SAVED


async def test_a_full_list_is_told(world: HttpDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than the list holds is refused, in words."""
    monkeypatch.setattr(saved, "MAX_SAVED_PEOPLE", 0)
    client = await page_client(world, world.customer.id)
    refused = await send(client, SAVED, world.companion.id)
    assert (refused.status_code, "list of saved people is full" in refused.text) == (400, True)


async def test_erasure_forgets_who_was_saved(each_world: HttpDeployment) -> None:
    """Nothing of the list is left."""
    person = await add_user(each_world.store, role=Role.CUSTOMER)
    actor = Actor(person.id, Role.CUSTOMER)
    await saved.save_person(each_world.ports, actor, each_world.companion.id)
    await each_world.store.run_transaction(lambda tx: tx.personal_data.erase(person, person.email))
    assert await saved.list_saved(each_world.ports, person.id, 1, 10) == []
