"""Contract of the stores: presence, that is, which users are connected at which node."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, MINUTE, NOW, SECOND, add_user
from staffbooking_adapters.testing.builders_messages import (
    add_direct,
    add_group,
    save_group_members,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.errors import RuleBroken
from staffbooking_core.ports import UserPresence

FINE = NOW + timedelta(microseconds=123_456)
LEASE = MINUTE
LEASE_END = NOW + LEASE
"""The end of the lease of a node that is renewed at NOW."""
MAX_CONNECTIONS = 10


async def presence(store, *user_ids, now=NOW):
    return list(await read_store(store, lambda view: view.presence.presence(user_ids, now)))


async def online(store, *user_ids, now=NOW):
    """The users who are online."""
    return [each.user_id for each in await presence(store, *user_ids, now=now) if each.online]


async def last_seen(store, user_id, now=NOW):
    """The time when an offline user was last seen."""
    [found] = await presence(store, user_id, now=now)
    assert not found.online
    return found.last_seen


async def online_partners(store, user_id, now=NOW):
    return list(
        await read_store(
            store, lambda view: view.presence.online_conversation_partners(user_id, now)
        )
    )


async def renew(store, *nodes, until=LEASE_END):
    return [
        await store.run_transaction(
            lambda unit, node=node: unit.presence.renew_node_lease(node, until)
        )
        for node in nodes
    ]


async def connect(store, user_id, node="a", now=NOW, most=MAX_CONNECTIONS):
    return await store.run_transaction(
        lambda unit: unit.presence.add_connection(user_id, node, now, most)
    )


async def disconnect(store, user_id, node="a", now=NOW):
    await store.run_transaction(lambda unit: unit.presence.remove_connection(user_id, node, now))


async def restore(store, connections, node="a", now=NOW):
    await store.run_transaction(lambda unit: unit.presence.set_connections(node, connections, now))


async def delete_expired(store, now=LEASE_END, limit=10):
    return list(
        await store.run_transaction(lambda unit: unit.presence.delete_expired_nodes(now, limit))
    )


async def departed(store, seen_before):
    """The users who are claimed as departed."""
    return list(
        await store.run_transaction(lambda unit: unit.presence.claim_departed_users(seen_before, 9))
    )


async def free(store, user_id, now=NOW):
    """The number of further connections that a user may have; adds them at the node `count`."""
    return sum([await connect(store, user_id, "count", now) for _ in range(MAX_CONNECTIONS)])


class PresenceContract(StoreContract):
    """Presence, that is, which users are connected at which node."""

    @pytest.fixture
    async def users(self, store):
        """Three user ids in ascending order; adds two nodes, and the node `count` for `free`."""
        await renew(store, "a", "b", "count")
        return [(await add_user(store)).id for _ in range(3)]

    # Connections ------------------------------------------------------------------------------
    async def test_users_are_offline_at_first(self, store, users):
        """Known and unknown users are offline and never seen at first."""
        asked = [users[2], 404, users[0]]
        assert await presence(store, *asked) == [UserPresence(each, False, None) for each in asked]
        assert await presence(store) == []

    async def test_connected_users_are_online(self, store, users):
        """The answer has the presence of each requested user, in order, repeated ids included."""
        one, two, three = users
        assert await connect(store, two)
        assert await connect(store, three, "b")
        asked = [three, one, two, 404, three]
        found = await presence(store, *asked)
        assert [each.user_id for each in found] == asked
        assert [each.online for each in found] == [True, False, True, False, True]

    async def test_a_query_may_have_many_users(self, store, users):
        """A query with 203 ids finds the one user who is online."""
        assert await connect(store, users[1])
        asked = [*range(1_000, 1_200), *users]
        assert await online(store, *asked) == [users[1]]

    async def test_the_connection_limit_is_per_user(self, store, users):
        """The connection limit is per user over all nodes."""
        one, two, _ = users
        results = [await connect(store, one, node, most=3) for node in ("a", "b", "a", "a", "b")]
        assert results == [True, True, True, False, False]
        assert await connect(store, two, most=3)
        assert await free(store, one) == MAX_CONNECTIONS - 3

    async def test_a_refused_connection_is_not_counted(self, store, users):
        """A refused connection does not count towards the limit and does not keep a user online."""
        user = users[0]
        for _ in range(3):
            await connect(store, user, most=1)
        await disconnect(store, user)
        assert await online(store, user) == []
        assert await connect(store, user, most=1)

    async def test_a_closed_connection_frees_a_place(self, store, users):
        """A closed connection frees a place for a connection at any node."""
        user = users[0]
        for node in ("a", "b"):
            assert await connect(store, user, node, most=2)
        assert not await connect(store, user, "a", most=2)
        await disconnect(store, user, "b")
        assert await connect(store, user, "a", most=2)
        assert await free(store, user) == MAX_CONNECTIONS - 2

    async def test_a_user_is_offline_after_the_last_connection(self, store, users):
        """A user is online until the last connection closes, which sets the last-seen time."""
        user = users[0]
        for node in ("a", "b", "a"):
            await connect(store, user, node)
        for node, now in (("a", NOW), ("b", NOW + SECOND), ("a", FINE + MINUTE)):
            assert await online(store, user) == [user]
            await disconnect(store, user, node, now)
        assert await presence(store, user) == [UserPresence(user, False, FINE + MINUTE)]

    async def test_closing_an_unknown_connection_changes_nothing(self, store, users):
        """Closing an uncounted connection changes nothing, not even the last-seen time."""
        one, two, _ = users
        await connect(store, one, "a")
        await disconnect(store, one, "b", NOW + SECOND)
        await disconnect(store, two, "a", NOW + SECOND)
        assert await online(store, one, two) == [one]
        assert await last_seen(store, two) is None
        await disconnect(store, one, "a", NOW)
        await disconnect(store, one, "a", NOW + SECOND)
        assert await last_seen(store, one) == NOW

    async def test_a_rolled_back_transaction_changes_nothing(self, store, users):
        """A rolled-back transaction adds no connection or node and removes no connection."""
        one, two, _ = users
        await connect(store, two)

        async def unit(tx):
            assert not await tx.presence.renew_node_lease("c", LEASE_END)
            assert await tx.presence.add_connection(one, "c", NOW, MAX_CONNECTIONS)
            await tx.presence.remove_connection(two, "a", NOW)
            assert [each.online for each in await tx.presence.presence(users, NOW)] == [
                True,
                False,
                False,
            ]
            raise RuleBroken("any", "any")

        with pytest.raises(RuleBroken):
            await store.run_transaction(unit)
        assert await online(store, *users) == [two]
        assert await renew(store, "c") == [False]

    # Nodes ------------------------------------------------------------------------------------
    async def test_renewing_tells_whether_the_node_is_known(self, store):
        """Renewing returns False for a new or removed node and True for a known one."""
        assert await renew(store, "a", "b", "a") == [False, False, True]
        await renew(store, "b", until=LEASE_END + 2 * HOUR)
        assert await renew(store, "a", until=LEASE_END + HOUR) == [True]
        await delete_expired(store, LEASE_END + HOUR)
        assert await renew(store, "a", "b") == [False, True]

    async def test_connections_of_an_expired_node_do_not_count(self, store, users):
        """A node's connections do not count from the end of its lease until it is renewed."""
        user = users[0]
        for _ in range(MAX_CONNECTIONS):
            assert await connect(store, user)
        await renew(store, "count", until=LEASE_END + HOUR)
        last_moment = LEASE_END - timedelta(microseconds=1)
        assert await online(store, user, now=last_moment) == [user]
        assert not await connect(store, user, "count", last_moment)
        assert await online(store, user, now=LEASE_END) == []
        assert await connect(store, user, "count", LEASE_END)
        await disconnect(store, user, "count")
        await renew(store, "a", until=LEASE_END + SECOND)
        assert await online(store, user, now=LEASE_END) == [user]

    async def test_a_live_node_keeps_its_users_online(self, store, users):
        """A user with connections at a live and an expired node stays online."""
        one, two, _ = users
        await renew(store, "b", until=LEASE_END + HOUR)
        for user_id, node in ((one, "a"), (one, "b"), (two, "a")):
            await connect(store, user_id, node)
        assert await online(store, *users, now=LEASE_END) == [one]
        assert await delete_expired(store) == [one, two]
        assert await online(store, *users, now=LEASE_END) == [one]
        await disconnect(store, one, "b", LEASE_END + SECOND)
        assert await last_seen(store, one, LEASE_END) == LEASE_END + SECOND

    async def test_removing_expired_nodes_returns_their_users(self, store, users):
        """Removing expired nodes returns each of their users once, by id."""
        one, two, three = users
        await renew(store, "c")
        await renew(store, "b", until=LEASE_END + HOUR)
        for user_id, node in ((three, "a"), (one, "c"), (three, "c"), (two, "b")):
            await connect(store, user_id, node)
        assert await delete_expired(store, LEASE_END - SECOND) == []
        assert await delete_expired(store) == [one, three]
        assert await delete_expired(store) == []

    async def test_a_removed_node_has_no_connections(self, store, users):
        """A removed node has no connections when it is added again."""
        user = users[0]
        await connect(store, user)
        await delete_expired(store)
        assert await renew(store, "a", "count", until=LEASE_END + HOUR) == [False, False]
        assert await online(store, user) == []
        assert await free(store, user) == MAX_CONNECTIONS

    async def test_expired_nodes_are_removed_up_to_a_limit(self, store, users):
        """One call removes expired nodes up to the limit; the next call continues."""
        for user_id, node in zip(users, ("a", "b", "count"), strict=True):
            await connect(store, user_id, node)
        some = await delete_expired(store, limit=2)
        assert len(some) == 2
        assert sorted(some + await delete_expired(store, limit=2)) == users
        assert await delete_expired(store, limit=2) == []

    async def test_users_of_a_removed_node_are_last_seen_at_its_lease_end(self, store, users):
        """Users of a removed node are last seen at its lease end, or later at another node."""
        one, two, three = users
        await renew(store, "c", until=FINE)
        for user_id, node in ((one, "c"), (two, "c"), (two, "a"), (three, "c"), (three, "b")):
            await connect(store, user_id, node)
        await disconnect(store, two, "a", FINE + SECOND)
        await disconnect(store, three, "b", FINE - SECOND)
        assert await delete_expired(store, NOW + SECOND) == users
        assert await last_seen(store, one) == FINE
        assert await last_seen(store, two) == FINE + SECOND
        assert await last_seen(store, three) == FINE

    async def test_the_last_seen_time_of_an_erased_user_is_not_kept(self, store):
        """Connections that close after their user was erased, are dropped, or whose node expires,
        leave no last-seen time."""
        await renew(store, "a", "b", "c")
        user = await add_user(store)
        for node in ("a", "b", "c"):
            await connect(store, user.id, node)
        erased = evolve(user, erased_at=NOW)

        async def erase(tx):
            await tx.accounts.save_user(erased)
            await tx.personal_data.erase(erased, None)

        await store.run_transaction(erase)
        await disconnect(store, user.id)
        await restore(store, {}, "c")
        assert await delete_expired(store) == [user.id]
        assert await last_seen(store, user.id, LEASE_END) is None

    async def test_removing_an_expired_node_does_not_change_presence(self, store, users):
        """Users of an expired node have the same presence before and after its removal."""
        one, two, three = users
        await renew(store, "c", until=FINE)
        for user_id, node in ((one, "c"), (two, "c"), (two, "a"), (three, "c")):
            await connect(store, user_id, node)
        await disconnect(store, two, "a", FINE + SECOND)
        found = await presence(store, *users, now=LEASE_END)
        assert found == [
            UserPresence(one, False, FINE),
            UserPresence(two, False, FINE + SECOND),
            UserPresence(three, False, FINE),
        ]
        await delete_expired(store)
        assert await presence(store, *users, now=LEASE_END) == found

    async def test_the_later_of_two_lease_ends_is_the_last_seen_time(self, store, users):
        """A user of two expired nodes is last seen at the later lease end."""
        user = users[0]
        await renew(store, "b", until=LEASE_END + SECOND)
        for node in ("b", "a"):
            await connect(store, user, node)
        assert await delete_expired(store, LEASE_END + HOUR) == [user]
        assert await last_seen(store, user) == LEASE_END + SECOND

    async def test_setting_connections_replaces_those_of_the_node(self, store, users):
        """Setting a node's connections replaces them and keeps those of other nodes."""
        one, two, three = users
        for user_id, node in ((one, "a"), (two, "a"), (two, "a"), (three, "b")):
            await connect(store, user_id, node)
        await restore(store, {two: 1, three: 4})
        assert await online(store, *users) == [two, three]
        await disconnect(store, two)
        assert await online(store, *users) == [three]
        assert await free(store, three) == MAX_CONNECTIONS - 5
        await restore(store, {})
        assert await online(store, *users) == [three]
        await disconnect(store, three, "b")
        await restore(store, {}, "count")
        assert await online(store, *users) == []

    async def test_a_user_dropped_by_setting_connections_departs(self, store, users):
        """Setting a node's connections sets the last-seen time of the node's users who have none
        any more, who are then claimed as departed, and of nobody else."""
        one, two, three = users
        for user_id, node in ((one, "a"), (two, "a"), (three, "b")):
            await connect(store, user_id, node)
        await restore(store, {two: 1}, now=FINE)
        assert await last_seen(store, one) == FINE
        assert await departed(store, FINE) == [one]

    async def test_a_user_set_with_no_connections_is_online_until_the_lease_ends(
        self, store, users
    ):
        """A user set with zero connections is online until the lease ends and uses no place."""
        user = users[0]
        await connect(store, user)
        await restore(store, {user: 0})
        assert await online(store, user) == [user]
        assert await free(store, user) == MAX_CONNECTIONS
        await restore(store, {}, "count")
        await disconnect(store, user)
        assert await online(store, user) == [user]
        assert await free(store, user) == MAX_CONNECTIONS
        await restore(store, {}, "count")
        assert await online(store, user, now=LEASE_END) == []
        assert await last_seen(store, user, LEASE_END) == LEASE_END
        assert await delete_expired(store) == [user]

    async def test_a_removed_node_can_be_added_again(self, store, users):
        """A removed node can be added again with the connections that it has."""
        user = users[0]
        await connect(store, user)
        await delete_expired(store)
        assert await renew(store, "a", until=LEASE_END + HOUR) == [False]
        await restore(store, {user: 2})
        assert await online(store, user, now=LEASE_END) == [user]
        await disconnect(store, user, now=LEASE_END)
        assert await online(store, user, now=LEASE_END) == [user]
        await disconnect(store, user, now=LEASE_END + SECOND)
        assert await last_seen(store, user, LEASE_END) == LEASE_END + SECOND

    # Conversation partners --------------------------------------------------------------------
    async def test_online_partners_share_a_conversation(self, store, users):
        """Online partners are the other members of shared conversations at live nodes, by id."""
        direct = await add_direct(store)
        (other,) = direct.staff_ids
        group = await add_group(store, customer_id=direct.customer_id)
        customer, one, two = direct.customer_id, *group.staff_ids
        await renew(store, "b", until=LEASE_END + HOUR)
        for user_id in (two, customer, other, users[0]):
            await connect(store, user_id)
        await connect(store, one, "b")
        assert await online_partners(store, customer) == sorted((one, two, other))
        assert await online_partners(store, one) == sorted((customer, two))
        assert await online_partners(store, other) == [customer]
        assert await online_partners(store, users[0]) == await online_partners(store, 404) == []
        assert await online_partners(store, customer, LEASE_END) == [one]

    async def test_a_former_member_is_no_online_partner(self, store, users):
        """A former member and the members of a conversation are no partners of each other."""
        group = await add_group(store)
        stays, leaves = group.staff_ids
        for user_id in group.recipient_ids:
            await connect(store, user_id)
        await save_group_members(store, group.customer_id, [stays])
        assert await online_partners(store, leaves) == []
        assert await online_partners(store, stays) == [group.customer_id]
        assert await online_partners(store, group.customer_id) == [stays]
