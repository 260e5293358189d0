"""Contract of the stores: users, sessions and API keys."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from attrs import asdict, evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    add_api_key,
    add_companion,
    add_session,
    add_user,
    make_api_key_text,
    make_new_api_key,
    make_new_user,
    make_session,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Role, Subscription
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import EMAIL_TAKEN, MAX_LOGIN_ADDRESSES

FINE = NOW + timedelta(microseconds=123_456)


async def add_login_address(store, user, digest, at=NOW):
    await store.run_transaction(lambda tx: tx.accounts.add_login_address(user.id, digest, at))


async def has_logged_in_from(store, email, digest):
    return await read_store(store, lambda view: view.accounts.has_logged_in_from(email, digest))


async def save_user(store, user, **fields):
    changed = evolve(user, **fields)
    await store.run_transaction(lambda unit: unit.accounts.save_user(changed))
    return changed


class AccountsContract(StoreContract):
    """Users, sessions and API keys."""

    async def test_an_address_is_known_after_a_login(self, store):
        """An address is known to the user who has logged in from it, by any spelling of the
        e-mail."""
        user, other = await add_user(store), await add_user(store)
        assert not await has_logged_in_from(store, user.email, b"here")
        for _ in range(2):
            await add_login_address(store, user, b"here")
        assert await has_logged_in_from(store, user.email.upper(), b"here")
        assert not await has_logged_in_from(store, user.email, b"there")
        assert not await has_logged_in_from(store, other.email, b"here")
        assert not await has_logged_in_from(store, "nobody@example.com", b"here")

    async def test_the_newest_login_addresses_are_kept(self, store):
        """A user has at most MAX_LOGIN_ADDRESSES known addresses: the one used longest ago goes."""
        user = await add_user(store)
        for n in range(MAX_LOGIN_ADDRESSES):
            await add_login_address(store, user, b"%d" % n, NOW + n * MINUTE)
        await add_login_address(store, user, b"0", NOW + DAY)
        await add_login_address(store, user, b"new", NOW + DAY + MINUTE)
        known = [await has_logged_in_from(store, user.email, b"%d" % n) for n in range(3)]
        assert known == [True, False, True]

    # Users ------------------------------------------------------------------------------------
    async def test_a_user_is_stored_as_added(self, store):
        """A user is stored with every field, times to the microsecond."""
        new = make_new_user(
            email="Zoë.O'Neil@Example.com",
            first_name="Zoë",
            last_name="O'Neil \N{GRINNING FACE}",
            role=Role.ADMIN,
            created_at=FINE,
            password_hash="$argon2id$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA",
            subscription=Subscription.ENTERPRISE,
            subscription_expires_at=FINE + DAY,
        )
        added = await store.run_transaction(lambda unit: unit.accounts.add_user(new))
        found = await read_store(store, lambda view: view.accounts.user(added.id))
        assert found == added
        assert asdict(added, recurse=False).items() >= asdict(new, recurse=False).items()
        assert (added.id > 0, added.disabled_at) == (True, None)

    async def test_users_get_ids_of_their_own(self, store):
        """User ids rise with each added user."""
        ids = [(await add_user(store)).id for _ in range(3)]
        assert ids == sorted(set(ids))

    async def test_an_unknown_user_is_none(self, store):
        """A lookup by an unknown id or e-mail returns None."""
        async with store.read_view() as view:
            assert await view.accounts.user(404) is None
            assert await view.accounts.user_by_email("nobody@example.com") is None
        assert await store.run_transaction(lambda unit: unit.accounts.lock_user(404)) is None

    @pytest.mark.parametrize(
        ("kept", "asked"),
        [
            ("Ada@Example.com", "ADA@example.COM"),
            ("élodie@example.com", "ÉLODIE@EXAMPLE.COM"),
            ("straße@example.com", "STRAẞE@example.com"),
        ],
    )
    async def test_an_email_is_found_in_any_case(self, store, kept, asked):
        """E-mail addresses compare in lower case, beyond ASCII too; other letters are others."""
        await add_user(store, email="strasse@example.com")
        user = await add_user(store, email=kept)
        assert await read_store(store, lambda view: view.accounts.user_by_email(asked)) == user

    @pytest.mark.parametrize("email", ["ada@example.com", "ADA@EXAMPLE.COM"])
    async def test_an_email_is_taken_once(self, store, email):
        """Adding a second user with the same folded e-mail is refused and stores nothing."""
        first = await add_user(store, email="ada@example.com")
        with pytest.raises(ConstraintViolated) as caught:
            await add_user(store, email=email)
        assert caught.value.constraint == EMAIL_TAKEN
        assert await read_store(store, lambda view: view.accounts.users(0, 10)) == [first]

    async def test_users_are_found_by_id_and_email(self, store):
        """Each user is found once by id or by e-mail, in any case of letters, ordered by id;
        unknown ones are left out."""
        ada, sam, _ = [await add_user(store, email=f"{each}@example.com") for each in "ase"]
        emails = ["S@Example.com", "s@example.com", "a@example.com", "x@example.com"]
        async with store.read_view() as view:
            assert await view.accounts.find_users([sam.id, 404], emails) == [ada, sam]
            assert await view.accounts.find_users([sam.id], []) == [sam]
            assert await view.accounts.find_users([], []) == []

    async def test_users_are_listed_by_id(self, store):
        """A page of users begins above the given id and has at most `limit` rows."""
        users = [await add_user(store) for _ in range(5)]
        async with store.read_view() as view:
            assert list(await view.accounts.users(0, 10)) == users
            assert list(await view.accounts.users(users[1].id, 2)) == users[2:4]
            assert list(await view.accounts.users(users[4].id, 2)) == []

    async def test_a_saved_user_is_changed(self, store):
        """Saving a user can change every field and changes no other user."""
        user, other = await add_user(store), await add_user(store)
        changed = await save_user(
            store,
            user,
            email="new@example.com",
            last_name="Adeyemi",
            role=Role.ADMIN,
            subscription=Subscription.BASIC,
            subscription_expires_at=FINE,
            password_hash="another",
            disabled_at=FINE,
        )
        assert await read_store(store, lambda view: view.accounts.users(0, 10)) == [changed, other]

    async def test_a_new_email_frees_the_old_one(self, store):
        """A changed e-mail finds the user, and the old e-mail becomes available."""
        user = await add_user(store, email="old@example.com")
        changed = await save_user(store, user, email="new@example.com")
        successor = await add_user(store, email="old@example.com")
        async with store.read_view() as view:
            assert await view.accounts.user_by_email("new@example.com") == changed
            assert await view.accounts.user_by_email("old@example.com") == successor

    async def test_an_email_may_change_its_case(self, store):
        """A user can change the letter case of their own e-mail."""
        user = await add_user(store, email="ada@example.com")
        changed = await save_user(store, user, email="Ada@Example.com")
        assert await read_store(store, lambda view: view.accounts.user(user.id)) == changed

    async def test_an_email_cannot_be_changed_to_a_taken_one(self, store):
        """Saving a taken e-mail is refused and leaves the user unchanged."""
        await add_user(store, email="ada@example.com")
        user = await add_user(store, email="ben@example.com")
        with pytest.raises(ConstraintViolated) as caught:
            await save_user(store, user, email="ADA@example.com")
        assert caught.value.constraint == EMAIL_TAKEN
        assert (
            await read_store(store, lambda view: view.accounts.user_by_email("ben@example.com"))
            == user
        )

    async def test_a_locked_user_is_the_user(self, store):
        """The locked user equals the user that was read."""
        user = await add_user(store)
        assert await store.run_transaction(lambda unit: unit.accounts.lock_user(user.id)) == user

    # A staff user's companion -----------------------------------------------------------------
    async def test_disabling_a_staff_user_hides_the_companion(self, store):
        """Disabling a staff user unlists the companion; enabling lists it again."""
        companion = await add_companion(store)
        user = await read_store(store, lambda view: view.accounts.user(companion.id))
        disabled = await save_user(store, user, disabled_at=NOW)
        async with store.read_view() as view:
            assert await view.companions.companion(user.id) == evolve(companion, active=False)
            assert await view.companions.detail(user.id) is None
        await save_user(store, disabled, disabled_at=None)
        async with store.read_view() as view:
            assert await view.companions.companion(user.id) == companion
            assert await view.companions.detail(user.id) is not None

    async def test_a_staff_user_and_the_companion_have_one_name(self, store):
        """Renaming a staff user renames the companion, also in its stored detail."""
        companion = await add_companion(store, first_name="Mia", last_name="Lindqvist")
        user = await read_store(store, lambda view: view.accounts.user(companion.id))
        await save_user(store, user, first_name="Maria", last_name="Berg")
        async with store.read_view() as view:
            renamed = await view.companions.companion(user.id)
            shown = msgspec.json.decode(await view.companions.detail(user.id))["companion"]
        assert renamed == evolve(companion, first_name="Maria", last_name="Berg")
        assert shown["first_name"] == "Maria"

    async def test_saving_a_customer_makes_no_companion(self, store):
        """Saving a user without a companion creates no companion."""
        user = await add_user(store)
        await save_user(store, user, first_name="Eva")
        assert await read_store(store, lambda view: view.companions.companion(user.id)) is None

    # Sessions ---------------------------------------------------------------------------------
    async def test_a_session_is_found_with_its_user(self, store):
        """A session is found by its token digest, with times to the microsecond."""
        user = await add_user(store)
        session = await add_session(store, user.id, created_at=FINE, seen_at=FINE + HOUR)
        found = await read_store(store, lambda view: view.accounts.session(session.digest))
        assert found == (session, user)

    async def test_an_unknown_session_is_none(self, store):
        """A lookup by an unknown session digest returns None."""
        session = make_session()
        assert await read_store(store, lambda view: view.accounts.session(session.digest)) is None

    async def test_an_expired_session_is_still_read(self, store):
        """The store returns old sessions too: it does not judge whether they are valid."""
        user = await add_user(store)
        session = await add_session(store, user.id, created_at=NOW - 400 * DAY)
        assert (
            await read_store(store, lambda view: view.accounts.session(session.digest)) is not None
        )

    async def test_touching_a_session_updates_seen_at(self, store):
        """Touching a session changes its `seen_at` only; an unknown session changes nothing."""
        user = await add_user(store)
        session, other = await add_session(store, user.id), await add_session(store, user.id)

        async def unit(tx):
            await tx.accounts.touch_session(session.digest, FINE)
            await tx.accounts.touch_session(b"unknown" * 4, FINE)

        await store.run_transaction(unit)
        async with store.read_view() as view:
            touched, _ = await view.accounts.session(session.digest)
            untouched, _ = await view.accounts.session(other.digest)
        assert (touched, untouched) == (evolve(session, seen_at=FINE), other)

    async def test_an_ended_session_is_gone(self, store):
        """Ending a session keeps the user's other sessions; ending it again is no error."""
        user = await add_user(store)
        session, other = await add_session(store, user.id), await add_session(store, user.id)
        for _ in range(2):
            await store.run_transaction(lambda unit: unit.accounts.end_session(session.digest))
        async with store.read_view() as view:
            assert await view.accounts.session(session.digest) is None
            assert await view.accounts.session(other.digest) == (other, user)

    async def test_all_sessions_of_a_user_end_together(self, store):
        """Ending all sessions of a user keeps the sessions of other users."""
        user, other = await add_user(store), await add_user(store)
        mine = [await add_session(store, user.id) for _ in range(3)]
        theirs = await add_session(store, other.id)
        await store.run_transaction(lambda unit: unit.accounts.end_sessions_of(user.id))
        async with store.read_view() as view:
            assert [await view.accounts.session(session.digest) for session in mine] == [None] * 3
            assert await view.accounts.session(theirs.digest) == (theirs, other)

    async def test_one_session_of_a_user_may_stay(self, store):
        """Ending a user's sessions can keep one of them."""
        user = await add_user(store)
        kept, *_ = [await add_session(store, user.id) for _ in range(3)]
        await store.run_transaction(
            lambda unit: unit.accounts.end_sessions_of(user.id, kept.digest)
        )
        async with store.read_view() as view:
            assert await view.accounts.sessions_of(user.id) == [kept]

    async def test_sessions_of_a_user_are_listed(self, store):
        """A user's sessions are listed newest first, without those of other users."""
        user, other = await add_user(store), await add_user(store)
        old = await add_session(store, user.id, created_at=NOW - DAY)
        new = await add_session(store, user.id)
        await add_session(store, other.id)
        async with store.read_view() as view:
            assert await view.accounts.sessions_of(user.id) == [new, old]
            assert await view.accounts.sessions_of(404) == []

    # API keys ---------------------------------------------------------------------------------
    async def test_a_key_is_stored_as_added(self, store):
        """An API key is stored with every field; a new key is neither used nor revoked."""
        user = await add_user(store)
        new = make_new_api_key(
            user.id,
            name="Büro",
            permissions=frozenset({Permission.READ}),
            created_at=FINE,
            expires_at=FINE + DAY,
        )
        added = await store.run_transaction(lambda unit: unit.accounts.add_api_key(new))
        assert asdict(added, recurse=False).items() >= asdict(new, recurse=False).items()
        assert (added.last_used_at, added.revoked_at) == (None, None)
        async with store.read_view() as view:
            assert await view.accounts.api_key(added.id) == added
            assert list(await view.accounts.api_keys_of(user.id)) == [added]

    async def test_keys_are_listed_newest_first(self, store):
        """An owner's keys, revoked ones included, are listed newest first, then by descending
        id."""
        user, other = await add_user(store), await add_user(store)
        second = await add_api_key(store, user.id, created_at=NOW)
        first = await add_api_key(store, user.id, created_at=NOW - DAY)
        third = await add_api_key(store, user.id, created_at=NOW)
        await add_api_key(store, other.id)
        await store.run_transaction(lambda unit: unit.accounts.revoke_api_key(third.id, NOW))
        keys = await read_store(store, lambda view: view.accounts.api_keys_of(user.id))
        assert [key.id for key in keys] == [third.id, second.id, first.id]

    async def test_an_unknown_key_is_none(self, store):
        """An unknown key id gives None, and an owner without keys has an empty list."""
        async with store.read_view() as view:
            assert await view.accounts.api_key(404) is None
            assert list(await view.accounts.api_keys_of(404)) == []

    async def test_a_revoked_key_keeps_its_first_time(self, store):
        """Revoking a key again keeps its first time; an unknown id is no error."""
        user = await add_user(store)
        key, other = await add_api_key(store, user.id), await add_api_key(store, user.id)
        for at in (FINE, FINE + MINUTE):
            await store.run_transaction(
                lambda unit, at=at: unit.accounts.revoke_api_key(key.id, at)
            )
        await store.run_transaction(lambda unit: unit.accounts.revoke_api_key(404, NOW))
        async with store.read_view() as view:
            assert await view.accounts.api_key(key.id) == evolve(key, revoked_at=FINE)
            assert await view.accounts.api_key(other.id) == other

    async def test_the_end_of_a_key_is_saved(self, store):
        """The new time at which a key expires is stored, and of no other key."""
        user = await add_user(store)
        key, other = await add_api_key(store, user.id), await add_api_key(store, user.id)
        retired = key.retire(FINE)
        await store.run_transaction(lambda unit: unit.accounts.save_api_key_expiry(retired))
        async with store.read_view() as view:
            assert await view.accounts.api_key(key.id) == evolve(key, expires_at=FINE)
            assert await view.accounts.api_key(other.id) == other

    async def test_a_digest_belongs_to_one_key(self, store):
        """The same key digest cannot be added twice, for any owner."""
        user, other, text = await add_user(store), await add_user(store), make_api_key_text()
        await add_api_key(store, user.id, text)
        with pytest.raises(ConstraintViolated):
            await add_api_key(store, other.id, text)
        assert list(await read_store(store, lambda view: view.accounts.api_keys_of(other.id))) == []
