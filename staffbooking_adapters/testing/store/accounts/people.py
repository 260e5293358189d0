"""Contract of the search for people: by the beginning of a name or address, role and state."""

from __future__ import annotations

from attrs import evolve

from staffbooking_adapters.testing.builders import NOW, add_user
from staffbooking_adapters.testing.store.base import OpenStore, StoreContract, read_store
from staffbooking_core.domain.accounts.users import AccountState, Role, fold_search_text
from staffbooking_core.ports import PeopleQuery


async def find(store: OpenStore, term: str = "", limit: int = 9, **filters):
    query = PeopleQuery(term=fold_search_text(term), limit=limit, **filters)
    found = await read_store(store, lambda view: view.accounts.find_people(query))
    return [each.id for each in found]


async def save(store: OpenStore, user, **change):
    changed = evolve(user, **change)
    await store.run_transaction(lambda tx: tx.accounts.save_user(changed))


async def add(store: OpenStore, first_name: str, last_name: str, **given):
    return await add_user(store, first_name=first_name, last_name=last_name, **given)


class PeopleContract(StoreContract):
    """By the beginning of a name or address, role and state."""

    async def test_people_are_found_by_the_beginning_of_what_names_them(self, store: OpenStore):
        """The whole name, each of its words and the address are found by their beginnings, without
        case and accents, and nothing in the middle of a word."""
        person = await add(store, "María José", "Ångström", email="MJ.a@Example.com")
        await add(store, "Bo", "Diaz", email="bo@other.example")
        for term in ("maria jose ang", "JOSÉ", "ångs", "angstrom", "mj.a@example", "Maria  jose"):
            assert await find(store, term) == [person.id], term
        for term in ("aria", "strom", "example.com", "maria angstrom", "100%", "_"):
            assert await find(store, term) == [], term

    async def test_everybody_is_listed_newest_first(self, store: OpenStore):
        """Without a term the newest accounts come first, page by page."""
        ids = [(await add_user(store)).id for _ in range(3)]
        assert await find(store, limit=2) == [ids[2], ids[1]]
        assert await find(store, limit=2, after_id=ids[1]) == [ids[0]]

    async def test_a_search_comes_in_pages_without_repetition(self, store: OpenStore):
        """Whoever matches with two words is found once, at the first of them."""
        names = [("Ada", "Adams"), ("Zoe", "Adler"), ("Adam", "Bell"), ("Ada", "Adams")]
        ids = [(await add(store, *name, email=f"u{n}@x.test")).id for n, name in enumerate(names)]
        expected = [ids[0], ids[3], ids[2], ids[1]]
        assert await find(store, "ad") == expected
        for place, found in enumerate(expected):
            after = expected[place - 1] if place else None
            assert await find(store, "ad", limit=1, after_id=after) == [found]
        assert await find(store, "ad", after_id=expected[-1]) == []

    async def test_a_page_begins_after_a_person_who_no_longer_matches(self, store: OpenStore):
        """After the last person of a page is disabled, the next page still begins after them."""
        ids = [(await add(store, "Ada", f"Adams {each}")).id for each in "abc"]
        last = await read_store(store, lambda view: view.accounts.user(ids[1]))
        await save(store, last, disabled_at=NOW)
        for term, expected in (("", [ids[0]]), ("ada", [ids[2]])):
            found = await find(store, term, state=AccountState.ACTIVE, after_id=ids[1])
            assert found == expected, term

    async def test_a_search_goes_on_by_id_after_a_person_without_the_term(self, store: OpenStore):
        """After the last person of a page is erased, those whose term is the text itself follow by
        id, and all others with it."""
        ids = [(await add(store, "Ada", name)).id for name in ("", "", "", "Adams")]
        last = await read_store(store, lambda view: view.accounts.user(ids[1]))
        await save(store, last, disabled_at=NOW, erased_at=NOW)
        assert await find(store, "ada", after_id=ids[1]) == [ids[2], ids[3]]

    async def test_role_and_state_select(self, store: OpenStore):
        """A role and a state narrow both lists; the erased match no term."""
        active = await add(store, "Ada", "One")
        admin = await add(store, "Ada", "Two", role=Role.ADMIN)
        disabled, erased = await add(store, "Ada", "Three"), await add(store, "Ada", "Four")
        await save(store, disabled, disabled_at=NOW)
        await save(store, erased, disabled_at=NOW, erased_at=NOW)
        for term in ("", "ada"):
            assert await find(store, term, role=Role.ADMIN) == [admin.id]
            assert set(await find(store, term, state=AccountState.ACTIVE)) == {active.id, admin.id}
            assert await find(store, term, state=AccountState.DISABLED) == [disabled.id]
        assert await find(store, state=AccountState.ERASED) == [erased.id]
        assert await find(store, "ada", state=AccountState.ERASED) == []

    async def test_a_changed_name_is_found_by_the_new_one(self, store: OpenStore):
        """After a change the old name and address find nobody."""
        person = await add(store, "Ada", "Byron", email="ada@x.test")
        await save(store, person, last_name="Lovelace", email="al@x.test")
        assert await find(store, "lovelace") == await find(store, "al@x") == [person.id]
        assert await find(store, "byron") == await find(store, "ada@x") == []

    async def test_names_of_any_length_are_stored(self, store: OpenStore):
        """Long words are cut, and letters that decompose into many are bounded."""
        person = await add(store, "\ufdfa" * 100, " ".join("abcdefghijkl"))
        assert await find(store, "\ufdfa" * 100) == [person.id]
