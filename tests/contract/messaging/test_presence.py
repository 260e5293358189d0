"""Contract of the stores: presence, that is, which users are connected at which node."""

from __future__ import annotations

from datetime import timedelta

import pytest

from staffbooking_core.errors import RuleBroken
from staffbooking_core.ports import UserPresence
from tests.contract.stores import read_store
from tests.support.builders import HOUR, MINUTE, NOW, SECOND, add_user
from tests.support.messages import add_direct, add_group, save_group_members

pytestmark = pytest.mark.anyio

FINE = NOW + timedelta(microseconds=123_456)
LEASE = MINUTE
ENDS = NOW + LEASE
"""When the lease ends of a node that is renewed at NOW."""
MOST = 10


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


async def acquaintances(store, user_id, now=NOW):
    return list(
        await read_store(
            store, lambda view: view.presence.online_conversation_partners(user_id, now)
        )
    )


async def renew(store, *nodes, until=ENDS):
    return [
        await store.run_transaction(
            lambda unit, node=node: unit.presence.renew_node_lease(node, until)
        )
        for node in nodes
    ]


async def connect(store, user_id, node="a", now=NOW, most=MOST):
    return await store.run_transaction(
        lambda unit: unit.presence.add_connection(user_id, node, now, most)
    )


async def disconnect(store, user_id, node="a", now=NOW):
    await store.run_transaction(lambda unit: unit.presence.remove_connection(user_id, node, now))


async def restore(store, connections, node="a"):
    await store.run_transaction(lambda unit: unit.presence.set_connections(node, connections))


async def bury(store, now=ENDS, limit=10):
    return list(
        await store.run_transaction(lambda unit: unit.presence.delete_expired_nodes(now, limit))
    )


async def free(store, user_id, now=NOW):
    """How many connections more a user may have, found out by having them."""
    return sum([await connect(store, user_id, "count", now) for _ in range(MOST)])


@pytest.fixture
async def users(store):
    """The ids of three users, rising; there are two nodes, and one to count at."""
    await renew(store, "a", "b", "count")
    return [(await add_user(store)).id for _ in range(3)]


# Connections ------------------------------------------------------------------------------


async def test_nobody_is_online_at_first(store, users):
    """Known and unknown users are offline and never seen at first."""
    asked = [users[2], 404, users[0]]
    assert await presence(store, *asked) == [UserPresence(each, False, None) for each in asked]
    assert await presence(store) == []


async def test_who_connects_is_online(store, users):
    """The answer has one entry for each requested user, in order."""
    one, two, three = users
    assert await connect(store, two)
    assert await connect(store, three, "b")
    asked = [three, one, two, 404, three]
    found = await presence(store, *asked)
    assert [each.user_id for each in found] == asked
    assert [each.online for each in found] == [True, False, True, False, True]


async def test_many_are_asked_for_at_once(store, users):
    """A query can have more users than a page."""
    assert await connect(store, users[1])
    asked = [*range(1_000, 1_200), *users]
    assert await online(store, *asked) == [users[1]]


async def test_a_user_has_so_many_connections(store, users):
    """The connection limit is per user over all nodes."""
    one, two, _ = users
    results = [await connect(store, one, node, most=3) for node in ("a", "b", "a", "a", "b")]
    assert results == [True, True, True, False, False]
    assert await connect(store, two, most=3)
    assert await free(store, one) == MOST - 3


async def test_a_refused_connection_is_not_counted(store, users):
    """A refused connection does not count."""
    user = users[0]
    for _ in range(3):
        await connect(store, user, most=1)
    await disconnect(store, user)
    assert await online(store, user) == []
    assert await connect(store, user, most=1)


async def test_a_connection_that_ends_makes_room(store, users):
    """A closed connection at any node frees a place."""
    user = users[0]
    for node in ("a", "b"):
        assert await connect(store, user, node, most=2)
    assert not await connect(store, user, "a", most=2)
    await disconnect(store, user, "b")
    assert await connect(store, user, "a", most=2)
    assert await free(store, user) == MOST - 2


async def test_who_is_not_connected_any_more_is_offline(store, users):
    """The end of the last connection sets the user offline, last seen to the microsecond."""
    user = users[0]
    for node in ("a", "b", "a"):
        await connect(store, user, node)
    for node, now in (("a", NOW), ("b", NOW + SECOND), ("a", FINE + MINUTE)):
        assert await online(store, user) == [user]
        await disconnect(store, user, node, now)
    assert await presence(store, user) == [UserPresence(user, False, FINE + MINUTE)]


async def test_what_was_not_counted_does_not_end(store, users):
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


async def test_what_is_undone_counts_for_nothing(store, users):
    """A rolled-back transaction leaves neither connection nor node."""
    one, two, _ = users
    await connect(store, two)

    async def unit(tx):
        assert not await tx.presence.renew_node_lease("c", ENDS)
        assert await tx.presence.add_connection(one, "c", NOW, MOST)
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


async def test_a_node_begins_once(store):
    """A node is prolonged after its start, also after its lease ended, until it is removed."""
    assert await renew(store, "a", "b", "a") == [False, False, True]
    await renew(store, "b", until=ENDS + 2 * HOUR)
    assert await renew(store, "a", until=ENDS + HOUR) == [True]
    await bury(store, ENDS + HOUR)
    assert await renew(store, "a", "b") == [False, True]


async def test_a_dead_node_counts_for_nothing(store, users):
    """A node's connections do not count from the end of its lease until it is renewed."""
    user = users[0]
    for _ in range(MOST):
        assert await connect(store, user)
    await renew(store, "count", until=ENDS + HOUR)
    last_moment = ENDS - timedelta(microseconds=1)
    assert await online(store, user, now=last_moment) == [user]
    assert not await connect(store, user, "count", last_moment)
    assert await online(store, user, now=ENDS) == []
    assert await connect(store, user, "count", ENDS)
    await disconnect(store, user, "count")
    await renew(store, "a", until=ENDS + SECOND)
    assert await online(store, user, now=ENDS) == [user]


async def test_a_living_node_keeps_its_users_online(store, users):
    """A live node keeps its users online, also those with connections at a dead one."""
    one, two, _ = users
    await renew(store, "b", until=ENDS + HOUR)
    for user_id, node in ((one, "a"), (one, "b"), (two, "a")):
        await connect(store, user_id, node)
    assert await online(store, *users, now=ENDS) == [one]
    assert await bury(store) == [one, two]
    assert await online(store, *users, now=ENDS) == [one]
    await disconnect(store, one, "b", ENDS + SECOND)
    assert await last_seen(store, one, ENDS) == ENDS + SECOND


async def test_the_users_of_dead_nodes_are_told(store, users):
    """The users of dead nodes are listed once, by id, without those of live nodes."""
    one, two, three = users
    await renew(store, "c")
    await renew(store, "b", until=ENDS + HOUR)
    for user_id, node in ((three, "a"), (one, "c"), (three, "c"), (two, "b")):
        await connect(store, user_id, node)
    assert await bury(store, ENDS - SECOND) == []
    assert await bury(store) == [one, three]
    assert await bury(store) == []


async def test_a_buried_node_has_no_connections(store, users):
    """A removed node has no connections when it starts again under its name."""
    user = users[0]
    await connect(store, user)
    await bury(store)
    assert await renew(store, "a", "count", until=ENDS + HOUR) == [False, False]
    assert await online(store, user) == []
    assert await free(store, user) == MOST


async def test_so_many_nodes_are_buried_at_a_time(store, users):
    """One call removes a limited number of dead nodes; the next call continues."""
    for user_id, node in zip(users, ("a", "b", "count"), strict=True):
        await connect(store, user_id, node)
    some = await bury(store, limit=2)
    assert len(some) == 2
    assert sorted(some + await bury(store, limit=2)) == users
    assert await bury(store, limit=2) == []


async def test_a_dead_nodes_users_were_seen_while_it_lived(store, users):
    """A dead node's users were last seen at the end of its lease, or at a later known time."""
    one, two, three = users
    await renew(store, "c", until=FINE)
    for user_id, node in ((one, "c"), (two, "c"), (two, "a"), (three, "c"), (three, "b")):
        await connect(store, user_id, node)
    await disconnect(store, two, "a", FINE + SECOND)
    await disconnect(store, three, "b", FINE - SECOND)
    assert await bury(store, NOW + SECOND) == users
    assert await last_seen(store, one) == FINE
    assert await last_seen(store, two) == FINE + SECOND
    assert await last_seen(store, three) == FINE


async def test_who_was_at_a_dead_node_is_seen_no_more(store, users):
    """A dead node's users are offline from the end of its lease, before its removal too."""
    one, two, three = users
    await renew(store, "c", until=FINE)
    for user_id, node in ((one, "c"), (two, "c"), (two, "a"), (three, "c")):
        await connect(store, user_id, node)
    await disconnect(store, two, "a", FINE + SECOND)
    found = await presence(store, *users, now=ENDS)
    assert found == [
        UserPresence(one, False, FINE),
        UserPresence(two, False, FINE + SECOND),
        UserPresence(three, False, FINE),
    ]
    await bury(store)
    assert await presence(store, *users, now=ENDS) == found


async def test_of_two_dead_nodes_the_later_one_tells(store, users):
    """Of two dead nodes the later lease end is the last-seen time, in any order of removal."""
    user = users[0]
    await renew(store, "b", until=ENDS + SECOND)
    for node in ("b", "a"):
        await connect(store, user, node)
    assert await bury(store, ENDS + HOUR) == [user]
    assert await last_seen(store, user) == ENDS + SECOND


async def test_a_node_may_count_anew(store, users):
    """Restoring a node replaces its own connections and keeps those of other nodes."""
    one, two, three = users
    for user_id, node in ((one, "a"), (two, "a"), (two, "a"), (three, "b")):
        await connect(store, user_id, node)
    await restore(store, {two: 1, three: 4})
    assert await online(store, *users) == [two, three]
    await disconnect(store, two)
    assert await online(store, *users) == [three]
    assert await free(store, three) == MOST - 5
    await restore(store, {})
    assert await online(store, *users) == [three]
    await disconnect(store, three, "b")
    await restore(store, {}, "count")
    assert await online(store, *users) == []


async def test_who_is_restored_without_connections_is_there_and_has_all_to_make(store, users):
    """As long as the node lives: so a process leaves that others are to take over from."""
    user = users[0]
    await connect(store, user)
    await restore(store, {user: 0})
    assert await online(store, user) == [user]
    assert await free(store, user) == MOST
    await restore(store, {}, "count")
    await disconnect(store, user)
    assert await online(store, user) == [user]
    assert await free(store, user) == MOST
    await restore(store, {}, "count")
    assert await online(store, user, now=ENDS) == []
    assert await last_seen(store, user, ENDS) == ENDS
    assert await bury(store) == [user]


async def test_a_node_that_was_taken_for_dead_comes_back(store, users):
    """A node that was taken for dead returns with its current connections."""
    user = users[0]
    await connect(store, user)
    await bury(store)
    assert await renew(store, "a", until=ENDS + HOUR) == [False]
    await restore(store, {user: 2})
    assert await online(store, user, now=ENDS) == [user]
    await disconnect(store, user, now=ENDS)
    assert await online(store, user, now=ENDS) == [user]
    await disconnect(store, user, now=ENDS + SECOND)
    assert await last_seen(store, user, ENDS) == ENDS + SECOND


# Those whom somebody knows ----------------------------------------------------------------


async def test_online_acquaintances_share_a_conversation(store, users):
    """Online acquaintances are the other members of shared conversations at live nodes, by id."""
    direct = await add_direct(store)
    (other,) = direct.staff_ids
    group = await add_group(store, customer_id=direct.customer_id)
    customer, one, two = direct.customer_id, *group.staff_ids
    await renew(store, "b", until=ENDS + HOUR)
    for user_id in (two, customer, other, users[0]):
        await connect(store, user_id)
    await connect(store, one, "b")
    assert await acquaintances(store, customer) == sorted((one, two, other))
    assert await acquaintances(store, one) == sorted((customer, two))
    assert await acquaintances(store, other) == [customer]
    assert await acquaintances(store, users[0]) == await acquaintances(store, 404) == []
    assert await acquaintances(store, customer, ENDS) == [one]


async def test_who_left_is_no_online_acquaintance(store, users):
    """A user who left a conversation is no acquaintance of its members, in either direction."""
    group = await add_group(store)
    stays, leaves = group.staff_ids
    for user_id in group.recipient_ids:
        await connect(store, user_id)
    await save_group_members(store, group.customer_id, [stays])
    assert await acquaintances(store, leaves) == []
    assert await acquaintances(store, stays) == [group.customer_id]
    assert await acquaintances(store, group.customer_id) == [stays]
