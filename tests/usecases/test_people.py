"""People see all that is kept about them, and can be forgotten without a cent going amiss."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from staffbooking_adapters import codec
from staffbooking_adapters.memory.doubles import RecordingNotifier
from staffbooking_adapters.memory.files import MemoryFiles
from staffbooking_core.domain.accounts import Actor, User
from staffbooking_core.domain.lifecycle import Status
from staffbooking_core.domain.limits import LimitExceeded
from staffbooking_core.domain.portfolio import Image
from staffbooking_core.errors import NotFound, RuleBroken, Unauthenticated
from staffbooking_core.inputs import Contact, CreateWebhook, Login, SubmitReview
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import (
    admin,
    contact,
    messages,
    notices,
    people,
    reviews,
    sessions,
    webhooks,
)
from tests.support.builders import NOW, add_session, add_user
from tests.support.notices import add_notice, make_notice
from tests.support.ports import Scene, another_companion, make_scene

pytestmark = pytest.mark.anyio

HERE = "203.0.113.9"
PARTIES = ("customer", "staff")


async def told_all(scene: Scene) -> None:
    """A booking to its payout, with everything that people say on the way."""
    booking = await scene.paid_out(location="Rua Secreta 7")
    ports, parties = scene.ports, (scene.customer, scene.staff)
    for one, other in (parties, parties[::-1]):
        await messages.send_to_user(ports, one, other.user_id, "call me")
        await reviews.submit(ports, one, booking.id, SubmitReview(rating=5, comment="good"))
    await scene.drain()


@pytest.fixture
async def scene() -> Scene:
    made = await make_scene()
    await told_all(made)
    return made


def actor(scene: Scene, party: str) -> Actor:
    found: Actor = getattr(scene, party)
    return found


async def user_of(scene: Scene, who: Actor) -> User:
    async with scene.ports.store.reading() as view:
        user = await view.accounts.user(who.user_id)
    assert user is not None
    return user


async def exported(scene: Scene, who: Actor) -> dict[str, object]:
    """As it would be handed out."""
    found: dict[str, object] = json.loads(
        codec.encode(await people.export(scene.ports, who.user_id))
    )
    return found


# Seeing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("party", PARTIES)
async def test_one_sees_what_is_kept(scene: Scene, party: str) -> None:
    """One's bookings as one may read them, what one wrote, and what was written of one."""
    who = actor(scene, party)
    found = await exported(scene, who)
    counts = {name: len(part) for name, part in found.items() if isinstance(part, list) and part}
    assert counts == {"bookings": 1, "messages": 1, "reviews_written": 1, "reviews_received": 1}
    assert found["user"]["id"] == who.user_id  # type: ignore[index]
    assert (found["profile"] is None) is (party == "customer")
    assert ("payout_amount" in found["bookings"][0]) is (party == "staff")  # type: ignore[index]


async def test_no_secret_is_handed_out(scene: Scene) -> None:
    """Neither the hash of a password nor the digest of a session."""
    session = await add_session(scene.ports.store, scene.customer.user_id)
    text = json.dumps(await exported(scene, scene.customer))
    assert session.digest.hex() not in text
    assert "password" not in text


async def test_questions_are_whose_address_is_proved(scene: Scene) -> None:
    """Anybody may register with any address."""
    user = await user_of(scene, scene.customer)
    await contact.ask(scene.ports, Contact(name="X", email=user.email, message="hush"))
    assert (await exported(scene, scene.customer))["inquiries"] == []
    proved = evolve(user, email_verified_at=NOW)
    await scene.ports.store.write(lambda tx: tx.accounts.save_user(proved))
    assert len((await exported(scene, scene.customer))["inquiries"]) == 1  # type: ignore[arg-type]


async def test_questions_of_others_stay(scene: Scene) -> None:
    """Who registers with an address and shows no proof of it erases nothing that came from it."""
    user = await user_of(scene, scene.customer)
    await contact.ask(scene.ports, Contact(name="X", email=user.email, message="mine"))
    await people.erase(scene.ports, user.id)
    async with scene.ports.store.reading() as view:
        assert [each.message for each in await view.people.inquiries_by(user.email)] == ["mine"]


# Being forgotten ------------------------------------------------------------------------------


@pytest.mark.parametrize("party", PARTIES)
async def test_nothing_names_who_is_forgotten(scene: Scene, party: str) -> None:
    """Neither their own records nor those of the other side; the money still adds up."""
    who = actor(scene, party)
    other = scene.staff if party == "customer" else scene.customer
    user = await user_of(scene, who)
    gone = await people.erase(scene.ports, who.user_id)
    assert gone.email == f"erased-{who.user_id}@erased.invalid"
    async with scene.ports.store.reading() as view:
        detail = await view.companions.companion(scene.staff.user_id)
        seen = [
            *await view.people.bookings_of(other.user_id),
            *await view.messages.tail(0, 10),
            *await view.people.reviews_by(who.user_id),
            await view.accounts.user(who.user_id),
            detail,
        ]
    text = repr(seen)
    for private in (user.name, user.email, "Rua Secreta" if party == "customer" else user.name):
        assert private not in text
    assert await scene.faults() == []


async def test_an_operator_brings_nobody_back(scene: Scene) -> None:
    """What is left of an account can't be enabled, or get a password."""
    gone = await people.erase(scene.ports, scene.customer.user_id)
    with pytest.raises(NotFound):
        await admin.enable(scene.ports, gone.email)
    with pytest.raises(NotFound):
        await admin.set_password(scene.ports, gone.email, "a-long-enough-password")
    assert await user_of(scene, scene.customer) == gone


async def test_a_companion_is_not_found_any_more(scene: Scene) -> None:
    """Nor shown; the marks that others gave stay."""
    await people.erase(scene.ports, scene.staff.user_id)
    async with scene.ports.store.reading() as view:
        assert await view.companions.detail(scene.staff.user_id) is None
        companion = await view.companions.companion(scene.staff.user_id)
    assert companion is not None
    assert (companion.first_name, companion.bio, companion.total_reviews) == ("Erased", "", 1)


async def test_what_others_show_is_made_anew(scene: Scene) -> None:
    """A companion's page tells of a review, and not who wrote it."""
    user = await user_of(scene, scene.customer)
    async with scene.ports.store.reading() as view:
        before = await view.companions.detail(scene.staff.user_id)
        assert before is not None
        assert user.name.encode() in before
        await people.erase(scene.ports, scene.customer.user_id)
        after = await view.companions.detail(scene.staff.user_id)
    assert after is not None
    assert user.name.encode() not in after
    assert b'"reviewer_name":"Erased"' in after


@pytest.mark.parametrize("party", PARTIES)
@pytest.mark.parametrize("state", ["request", "accepted", "paid", "completed"])
async def test_who_has_open_bookings_is_not_forgotten(party: str, state: str) -> None:
    """Neither side, until all is paid; nothing changes."""
    scene = await make_scene()
    await getattr(scene, state)()
    who = actor(scene, party)
    before = await user_of(scene, who)
    with pytest.raises(RuleBroken) as raised:
        await people.erase(scene.ports, who.user_id)
    assert raised.value.code == "open_bookings"
    assert await user_of(scene, who) == before


async def test_who_cancelled_and_got_it_back_is_forgotten() -> None:
    """Nothing is owed any more."""
    scene = await make_scene()
    booking = await scene.cancel(await scene.paid())
    with pytest.raises(RuleBroken):
        await people.erase(scene.ports, scene.customer.user_id)
    await scene.settle_down()
    assert (await scene.booking(booking)).status is Status.CANCELLED
    await people.erase(scene.ports, scene.customer.user_id)
    assert await scene.faults() == []


async def test_one_is_forgotten_once(scene: Scene) -> None:
    """There is nobody left to be forgotten, or to see anything."""
    await people.erase(scene.ports, scene.customer.user_id)
    for again in (people.erase, people.export):
        with pytest.raises(NotFound):
            await again(scene.ports, scene.customer.user_id)
    with pytest.raises(NotFound):
        await people.erase(scene.ports, 404)


async def test_the_address_is_free_again(scene: Scene) -> None:
    """Who was forgotten may come back as somebody new, and finds nothing."""
    user = await user_of(scene, scene.customer)
    await people.erase(scene.ports, user.id)
    new = await add_user(scene.ports.store, email=user.email)
    found = await exported(scene, Actor(new.id, new.role))
    assert not any(part for part in found.values() if isinstance(part, list))


async def test_endpoints_go_with_their_owner(scene: Scene) -> None:
    """With where they led to, and what was to be sent."""
    user = await user_of(scene, scene.admin)
    given = CreateWebhook(url="https://hooks.example/hush")
    endpoint, _ = await webhooks.register(scene.ports, user, given)
    await people.erase(scene.ports, user.id)
    async with scene.ports.store.reading() as view:
        assert list(await view.webhooks.endpoints_of(user.id)) == []
    locked = await scene.ports.store.write(lambda tx: tx.webhooks.lock_endpoint(endpoint.id))
    assert locked is None or "hush" not in locked.url


async def add_image(ports: Ports, who: Actor, name: str) -> None:
    image = Image(name, who.user_id, 5, NOW)
    await ports.files.put(name, b"bytes")
    await ports.store.write(lambda tx: tx.staff.add_image(image))


async def test_images_go_with_their_owner(scene: Scene) -> None:
    """Their bytes too; those of others stay."""
    ports, other = scene.ports, await another_companion(scene)
    await add_image(ports, scene.staff, "a.png")
    await add_image(ports, other.staff, "b.png")
    await people.erase(ports, scene.staff.user_id)
    assert await ports.files.get("a.png") is None
    assert await ports.files.get("b.png") == b"bytes"


async def test_an_image_that_stays_keeps_no_other(scene: Scene) -> None:
    """All are tried; what failed is raised at the end, when the person is forgotten."""

    class Stubborn(MemoryFiles):
        async def remove(self, name: str) -> None:
            if name != "c.png":
                raise OSError(name)
            await super().remove(name)

    files = Stubborn()
    ports = evolve(scene.ports, files=files)
    for name in ("a.png", "b.png", "c.png"):
        await add_image(ports, scene.staff, name)
    with pytest.raises(ExceptionGroup) as raised:
        await people.erase(ports, scene.staff.user_id)
    assert [str(fault) for fault in raised.value.exceptions] == ["a.png", "b.png"]
    assert await files.get("c.png") is None
    assert (await user_of(scene, scene.staff)).erased_at is not None


async def test_who_is_forgotten_is_told_nothing_more(scene: Scene) -> None:
    """Whatever was to be told."""
    await add_notice(scene.ports.store, make_notice(scene.customer.user_id))
    await people.erase(scene.ports, scene.customer.user_id)
    notifier = scene.ports.notifier
    assert isinstance(notifier, RecordingNotifier)
    before = len(notifier.letters)
    assert await notices.tell_notices(scene.ports) == 1
    assert len(notifier.letters) == before


# By oneself -----------------------------------------------------------------------------------


async def with_password(scene: Scene) -> User:
    user = evolve(await user_of(scene, scene.customer), password_hash="plain:correct horse")
    await scene.ports.store.write(lambda tx: tx.accounts.save_user(user))
    return user


async def test_one_is_forgotten_by_the_password(scene: Scene) -> None:
    """Not by a wrong one; and signs in no more."""
    user = await with_password(scene)
    with pytest.raises(Unauthenticated):
        await people.erase_myself(scene.ports, user.id, "wrong", HERE)
    assert (await user_of(scene, scene.customer)).erased_at is None
    await people.erase_myself(scene.ports, user.id, "correct horse", HERE)
    assert (await user_of(scene, scene.customer)).erased_at is not None
    given = Login(email=user.email, password="correct horse")
    with pytest.raises(Unauthenticated):
        await sessions.login(scene.ports, given, HERE)


async def test_the_password_is_not_guessed_at(scene: Scene) -> None:
    """Ten wrong ones, and the right one is refused."""
    user = await with_password(scene)
    for _ in range(10):
        with pytest.raises(Unauthenticated):
            await people.erase_myself(scene.ports, user.id, "wrong", HERE)
    with pytest.raises(LimitExceeded):
        await people.erase_myself(scene.ports, user.id, "correct horse", HERE)
