"""Contract of the stores: credentials and exact rate-limit windows."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    POLICY,
    SECOND,
    add_api_key,
    add_session,
    add_subscriber,
    add_user,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Role, Subscription
from staffbooking_core.domain.shared.rate_limits import RateLimit, RateLimitDecision
from staffbooking_core.errors import Forbidden, Unauthenticated

GENERAL = RateLimit("general", 5, HOUR)
BOOKINGS = RateLimit("bookings", 2, MINUTE)
READ, BOOK = Permission.READ, Permission.BOOK


def seconds(at):
    return int(at.timestamp())


async def by_key(store, key, permission=READ, rules=(GENERAL,), now=NOW):
    return await store.admission.authenticate_api_key(key.digest, permission, rules, now)


async def counted(store, key, rule=GENERAL, now=NOW):
    """The number of hits in a key's window."""
    verdict = await store.admission.peek(f"{rule.name}:key:{key.id}", rule, now)
    return rule.limit - verdict.remaining


class AdmissionContract(StoreContract):
    """Credentials and exact rate-limit windows."""

    # Keys -------------------------------------------------------------------------------------
    async def test_a_key_is_admitted_with_its_owner(self, store):
        """The caller is the key and its owner, with one verdict for each rule in order."""
        owner = await add_subscriber(store)
        key = await add_api_key(store, owner.id)
        caller, verdicts = await by_key(store, key, BOOK, (BOOKINGS, GENERAL))
        assert (evolve(caller.key, last_used_at=None), caller.owner) == (key, owner)
        assert list(verdicts) == [
            RateLimitDecision(2, 1, seconds(NOW + MINUTE), allowed=True, retry_after=0),
            RateLimitDecision(5, 4, seconds(NOW + HOUR), allowed=True, retry_after=0),
        ]

    async def test_the_last_use_of_a_key_is_stored(self, store):
        """Admission stores the time of the key's last use."""
        owner = await add_subscriber(store)
        key, other = await add_api_key(store, owner.id), await add_api_key(store, owner.id)
        await by_key(store, key)
        await by_key(store, key, now=NOW + DAY)
        async with store.read_view() as view:
            assert (await view.accounts.api_key(key.id)).last_used_at == NOW + DAY
            assert (await view.accounts.api_key(other.id)).last_used_at is None
            used = {
                each.id: each.last_used_at for each in await view.accounts.api_keys_of(owner.id)
            }
        assert used == {key.id: NOW + DAY, other.id: None}

    async def test_without_rules_nothing_is_counted(self, store):
        """A key can be looked up without rate-limit rules."""
        key = await add_api_key(store, (await add_subscriber(store)).id)
        _, verdicts = await by_key(store, key, rules=())
        assert (list(verdicts), await counted(store, key)) == ([], 0)

    @pytest.mark.parametrize("case", ["unknown", "revoked", "expired", "disabled"])
    async def test_a_key_that_does_not_work_is_refused(self, store, case):
        """An invalid key is refused as unauthenticated, and no hit is counted."""
        owner = await add_subscriber(store)
        expires_at = NOW if case == "expired" else NOW + SECOND
        key = await add_api_key(store, owner.id, expires_at=expires_at)
        if case == "revoked":
            await store.run_transaction(
                lambda unit: unit.accounts.revoke_api_key(key.id, NOW - DAY)
            )
        elif case == "disabled":
            disabled = evolve(owner, disabled_at=NOW)
            await store.run_transaction(lambda unit: unit.accounts.save_user(disabled))
        shown = evolve(key, digest=b"\x00" * 32) if case == "unknown" else key
        with pytest.raises(Unauthenticated) as caught:
            await by_key(store, shown)
        assert caught.value.code == "invalid_api_key"
        assert await counted(store, key) == 0
        assert (
            await read_store(store, lambda view: view.accounts.api_key(key.id))
        ).last_used_at is None

    @pytest.mark.parametrize(
        ("tier", "expires_at"),
        [
            (Subscription.NONE, None),
            (Subscription.BASIC, NOW + DAY),
            (Subscription.ENTERPRISE, NOW),
        ],
    )
    async def test_a_key_needs_a_running_subscription(self, store, tier, expires_at):
        """A key without a subscription is forbidden, and no hit is counted."""
        owner = await add_user(store, subscription=tier, subscription_expires_at=expires_at)
        key = await add_api_key(store, owner.id)
        with pytest.raises(Forbidden) as caught:
            await by_key(store, key)
        assert caught.value.code == "subscription_required"
        assert await counted(store, key) == 0

    async def test_a_key_needs_the_permission(self, store):
        """A key without the required permission is forbidden, and no hit is counted."""
        owner = await add_subscriber(store)
        key = await add_api_key(store, owner.id, permissions=frozenset({READ}))
        with pytest.raises(Forbidden) as caught:
            await by_key(store, key, BOOK)
        assert caught.value.code == "permission_required"
        assert await counted(store, key) == 0
        await by_key(store, key, None)
        await by_key(store, key, READ)
        assert await counted(store, key) == 2

    async def test_an_admins_key_needs_no_permission(self, store):
        """An admin's key is admitted without the required permission and without a subscription."""
        admin = await add_user(store, role=Role.ADMIN)
        key = await add_api_key(store, admin.id, permissions=frozenset({READ}))
        caller, _ = await by_key(store, key, BOOK)
        assert caller.owner == admin

    async def test_a_revocation_is_seen_at_once(self, store):
        """The first lookup after a revocation is refused."""
        key = await add_api_key(store, (await add_subscriber(store)).id)
        await by_key(store, key)
        await store.run_transaction(lambda unit: unit.accounts.revoke_api_key(key.id, NOW))
        with pytest.raises(Unauthenticated):
            await by_key(store, key)

    async def test_a_lost_subscription_is_seen_at_once(self, store):
        """A lost or restored subscription and a disabled owner take effect on the next call."""
        owner = await add_subscriber(store)
        key = await add_api_key(store, owner.id)
        for change, error in (
            ({"subscription": Subscription.NONE}, Forbidden),
            ({"disabled_at": NOW}, Unauthenticated),
        ):
            changed = evolve(owner, **change)
            await store.run_transaction(lambda unit, user=changed: unit.accounts.save_user(user))
            with pytest.raises(error):
                await by_key(store, key)
        await store.run_transaction(lambda unit: unit.accounts.save_user(owner))
        assert (await by_key(store, key))[0].owner == owner

    # Windows of keys --------------------------------------------------------------------------
    async def test_an_exceeded_limit_is_a_verdict(self, store):
        """A call over the limit gets a verdict with the retry time and raises no error."""
        key = await add_api_key(store, (await add_subscriber(store)).id)
        verdicts = [(await by_key(store, key, rules=(BOOKINGS,)))[1][0] for _ in range(4)]
        assert [verdict.allowed for verdict in verdicts] == [True, True, False, False]
        assert verdicts[-1] == RateLimitDecision(
            2, 0, seconds(NOW + MINUTE), allowed=False, retry_after=60
        )

    async def test_concurrent_calls_are_counted_exactly(self, store):
        """Of 100 concurrent calls exactly as many pass as the limit allows."""
        key = await add_api_key(store, (await add_subscriber(store)).id)
        rule = RateLimit("general", 37, HOUR)
        answers = await asyncio.gather(*(by_key(store, key, rules=(rule,)) for _ in range(100)))
        verdicts = [verdict for _, (verdict,) in answers]
        assert sum(verdict.allowed for verdict in verdicts) == 37
        assert sorted(verdict.remaining for verdict in verdicts) == [0] * 63 + list(range(37))

    async def test_keys_and_rules_have_windows_of_their_own(self, store):
        """Each key and rule has its own window, also for one owner and concurrent calls."""
        owner = await add_subscriber(store)
        keys = [await add_api_key(store, owner.id) for _ in range(3)]
        calls = [by_key(store, key, BOOK, (BOOKINGS, GENERAL)) for key in keys for _ in range(4)]
        await asyncio.gather(*calls, by_key(store, keys[0]))
        hits = [
            await store.admission.count_hit(f"general:key:{key.id}", GENERAL, NOW) for key in keys
        ]
        assert [verdict.allowed for verdict in hits] == [False, True, True]

    async def test_refused_calls_among_others_are_not_counted(self, store):
        """Of concurrent calls with valid and invalid keys, only those with valid keys are
        counted."""
        owner = await add_subscriber(store)
        good = await add_api_key(store, owner.id)
        weak = await add_api_key(store, owner.id, permissions=frozenset({READ}))
        revoked = await add_api_key(store, owner.id)
        await store.run_transaction(lambda unit: unit.accounts.revoke_api_key(revoked.id, NOW))
        calls = [by_key(store, key, BOOK) for _ in range(3) for key in (good, weak, revoked)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(each, Forbidden) for each in results] == [False, True, False] * 3
        assert [isinstance(each, Unauthenticated) for each in results] == [False, False, True] * 3
        assert [await counted(store, key) for key in (good, weak, revoked)] == [3, 0, 0]

    async def test_a_new_window_has_the_whole_limit(self, store):
        """The whole limit is available again when the window ends."""
        key = await add_api_key(store, (await add_subscriber(store)).id)
        for _ in range(3):
            await by_key(store, key, rules=(BOOKINGS,))
        _, (late,) = await by_key(store, key, rules=(BOOKINGS,), now=NOW + MINUTE - SECOND)
        _, (fresh,) = await by_key(store, key, rules=(BOOKINGS,), now=NOW + MINUTE)
        assert (late.allowed, fresh.allowed, fresh.remaining) == (False, True, 1)
        assert fresh.reset == seconds(NOW + 2 * MINUTE)

    # Sessions ---------------------------------------------------------------------------------
    async def test_a_session_authenticates_its_user(self, store):
        """The caller is the stored session and its stored user."""
        user = await add_user(store)
        session = await add_session(store, user.id)
        caller = await store.admission.authenticate_session(session.digest, NOW)
        assert (caller.session, caller.user) == (session, user)

    @pytest.mark.parametrize("case", ["unknown", "idle", "old", "disabled", "ended"])
    async def test_an_invalid_session_is_refused(self, store, case):
        """An unknown, idle, expired or ended session, or a disabled user's, is refused."""
        user = await add_user(store, created_at=NOW)
        times = {
            "idle": {"seen_at": NOW - POLICY.session_idle},
            "old": {"created_at": NOW - POLICY.session_lifetime},
        }
        session = await add_session(store, user.id, **times.get(case, {}))
        if case == "disabled":
            disabled = evolve(user, disabled_at=NOW)
            await store.run_transaction(lambda unit: unit.accounts.save_user(disabled))
        elif case == "ended":
            await store.run_transaction(lambda unit: unit.accounts.end_session(session.digest))
        digest = b"\x00" * 32 if case == "unknown" else session.digest
        assert await store.admission.authenticate_session(digest, NOW) is None

    async def test_a_session_lasts_to_its_last_second(self, store):
        """A session is valid until one second before it is idle or expired."""
        user = await add_user(store)
        created_at = NOW - POLICY.session_lifetime + SECOND
        seen_at = NOW - POLICY.session_idle + SECOND
        session = await add_session(store, user.id, created_at=created_at, seen_at=seen_at)
        assert await store.admission.authenticate_session(session.digest, NOW) is not None

    async def test_concurrent_sessions_find_their_users(self, store):
        """Concurrent session lookups each find their own user."""
        users = [await add_user(store) for _ in range(5)]
        sessions = [await add_session(store, user.id) for user in users]
        found = await asyncio.gather(
            *(store.admission.authenticate_session(session.digest, NOW) for session in sessions)
        )
        assert [caller.user for caller in found] == users

    # Windows by name --------------------------------------------------------------------------
    async def test_hits_are_counted(self, store):
        """Each hit returns the figures of its headers; the hit after the limit is refused."""
        verdicts = [
            await store.admission.count_hit("contact:203.0.113.7", BOOKINGS, NOW + n * SECOND)
            for n in range(3)
        ]
        reset = seconds(NOW + MINUTE)
        assert verdicts == [
            RateLimitDecision(2, 1, reset, allowed=True, retry_after=0),
            RateLimitDecision(2, 0, reset, allowed=True, retry_after=0),
            RateLimitDecision(2, 0, reset, allowed=False, retry_after=58),
        ]

    async def test_a_returned_hit_is_free_again(self, store):
        """A returned hit leaves its window's end as it is; a window that has ended, is empty or
        never began stays so."""
        await store.admission.count_hit("a", BOOKINGS, NOW)
        await store.admission.count_hit("a", BOOKINGS, NOW + SECOND)
        await store.admission.return_hit("a", NOW + 2 * SECOND)
        shown = await store.admission.peek("a", BOOKINGS, NOW + 2 * SECOND)
        assert (shown.remaining, shown.reset) == (1, seconds(NOW + MINUTE))
        for _ in range(3):
            await store.admission.return_hit("a", NOW + 2 * SECOND)
        await store.admission.return_hit("a", NOW + MINUTE)
        await store.admission.return_hit("never", NOW)
        for scope in ("a", "never"):
            assert (await store.admission.peek(scope, BOOKINGS, NOW + 3 * SECOND)).remaining == 2

    async def test_a_window_runs_from_its_first_hit(self, store):
        """Refused hits do not extend a window; fractions of a second are rounded up."""
        fraction = timedelta(microseconds=1)
        for n in range(5):
            await store.admission.count_hit("a", BOOKINGS, NOW + fraction + n * 10 * SECOND)
        late = await store.admission.count_hit("a", BOOKINGS, NOW + MINUTE)
        fresh = await store.admission.count_hit("a", BOOKINGS, NOW + MINUTE + fraction)
        assert (late.allowed, late.retry_after, late.reset) == (False, 1, seconds(NOW + MINUTE) + 1)
        assert (fresh.allowed, fresh.reset) == (True, seconds(NOW + 2 * MINUTE) + 1)

    async def test_scopes_are_counted_apart(self, store):
        """Each scope has its own window; scope names compare exactly."""
        scopes = ["general:user:1", "general:user:11", "GENERAL:user:1", "general:é", "general:'%"]
        for scope in scopes:
            await store.admission.count_hit(scope, BOOKINGS, NOW)
        left = [(await store.admission.peek(scope, BOOKINGS, NOW)).remaining for scope in scopes]
        assert left == [1] * len(scopes)

    async def test_concurrent_hits_are_counted_exactly(self, store):
        """Concurrent hits over several scopes are counted exactly."""
        rule = RateLimit("general", 20, HOUR)
        hits = [store.admission.count_hit(f"scope:{n % 3}", rule, NOW) for n in range(90)]
        verdicts = await asyncio.gather(*hits)
        assert [sum(each.allowed for each in verdicts[n::3]) for n in range(3)] == [20, 20, 20]

    async def test_peeking_counts_no_hit(self, store):
        """Peeking at a window returns its figures and counts no hit."""
        fresh = await store.admission.peek("a", BOOKINGS, NOW)
        await store.admission.count_hit("a", BOOKINGS, NOW)
        looks = [await store.admission.peek("a", BOOKINGS, NOW + SECOND) for _ in range(5)]
        await store.admission.count_hit("a", BOOKINGS, NOW)
        spent = await store.admission.peek("a", BOOKINGS, NOW + SECOND)
        ended = await store.admission.peek("a", BOOKINGS, NOW + MINUTE)
        reset = seconds(NOW + MINUTE)
        assert fresh == RateLimitDecision(2, 2, reset, allowed=True, retry_after=0)
        assert looks == [RateLimitDecision(2, 1, reset, allowed=True, retry_after=0)] * 5
        assert spent == RateLimitDecision(2, 0, reset, allowed=False, retry_after=59)
        assert (ended.remaining, ended.reset) == (2, seconds(NOW + 2 * MINUTE))

    async def test_windows_are_looked_up_together(self, store):
        """Several windows are looked up at once, without a hit; one that does not run is empty."""
        key = await add_api_key(store, (await add_subscriber(store)).id)
        for _ in range(2):
            await by_key(store, key)
        scopes = {f"general:key:{key.id}": GENERAL, "bookings:user:404": BOOKINGS}
        for _ in range(2):
            found = await store.admission.peek_all(scopes, NOW)
            assert {scope: each.remaining for scope, each in found.items()} == {
                f"general:key:{key.id}": 3,
                "bookings:user:404": 2,
            }
        later = await store.admission.peek_all(scopes, NOW + HOUR)
        assert later[f"general:key:{key.id}"].remaining == 5
        assert await store.admission.peek_all({}, NOW) == {}

    async def test_a_retired_key_works_until_its_end(self, store):
        """A key that another one replaces is admitted until the end of the overlap."""
        key = await add_api_key(store, (await add_subscriber(store)).id)
        assert await by_key(store, key)
        retired = key.retire(NOW + HOUR)
        await store.run_transaction(lambda unit: unit.accounts.save_api_key_expiry(retired))
        assert await by_key(store, key, now=NOW + HOUR - SECOND)
        with pytest.raises(Unauthenticated):
            await by_key(store, key, now=NOW + HOUR)
