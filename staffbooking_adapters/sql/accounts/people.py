"""The search for people by operators, and the terms by which it finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from attrs import frozen
from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    true,
    tuple_,
)

from staffbooking_adapters.sql.engine.composite import BatchStatement
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import batch_rows, in_array
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.schema.accounts import USER_COLUMNS, is_disabled, person_terms, users
from staffbooking_core.bounds import MAX_ID
from staffbooking_core.domain.accounts.users import AccountState, User, search_terms
from staffbooking_core.ports import PeopleQuery

_LAST_CODE_POINT = "\U0010ffff"

_LOW = bindparam("low", type_=Text())
_HIGH = bindparam("high", type_=Text())
_AFTER_ID = bindparam("after_id", type_=BigInt)
_IS_IN_STATE: Mapping[AccountState, ColumnElement[bool]] = {
    AccountState.ACTIVE: users.c.disabled_at.is_(None),
    AccountState.DISABLED: and_(is_disabled, users.c.erased_at.is_(None)),
    AccountState.ERASED: and_(is_disabled, users.c.erased_at.is_not(None)),
}


@frozen
class PeopleVariant:
    """The filters and page size of a search. Each variant is one statement."""

    has_term: bool
    has_role: bool
    state: AccountState | None
    has_after: bool
    size: int


@cache
def people_page(variant: PeopleVariant) -> Statement:
    filters = [users.c.role == bindparam("role", type_=Text())] if variant.has_role else []
    if variant.state is not None:
        filters.append(_IS_IN_STATE[variant.state])
    page = _select_by_term(variant) if variant.has_term else _select_newest()
    return Statement(page.where(*filters).limit(variant.size))


def _select_newest() -> Select[Any]:
    return select(*USER_COLUMNS).where(users.c.id < _AFTER_ID).order_by(users.c.id.desc())


def _select_by_term(variant: PeopleVariant) -> Select[Any]:
    """Each person stands at the first of their matching terms."""
    earlier = person_terms.alias("earlier")
    is_first = ~exists().where(
        earlier.c.user_id == person_terms.c.user_id,
        earlier.c.term >= _LOW,
        earlier.c.term < person_terms.c.term,
    )
    page = (
        select(*USER_COLUMNS)
        .join_from(person_terms, users, users.c.id == person_terms.c.user_id)
        .where(person_terms.c.term >= _LOW, person_terms.c.term < _HIGH, is_first)
        .order_by(person_terms.c.term, person_terms.c.user_id)
    )
    if not variant.has_after:
        return page
    own = person_terms.alias("own")
    last_term = select(func.min(own.c.term)).where(
        own.c.user_id == _AFTER_ID, own.c.term >= _LOW, own.c.term < _HIGH
    )
    place = tuple_(func.coalesce(last_term.scalar_subquery(), _LOW), _AFTER_ID)
    return page.where(tuple_(person_terms.c.term, person_terms.c.user_id) > place)


async def find_people(connection: Connection, query: PeopleQuery) -> Sequence[Row]:
    """Rows of `USER_COLUMNS`."""
    variant = PeopleVariant(
        has_term=bool(query.term),
        has_role=query.role is not None,
        state=query.state,
        has_after=query.after_id is not None or not query.term,
        size=page_size(query.limit),
    )
    statement = people_page(variant)
    params = {
        "low": query.term,
        "high": query.term + _LAST_CODE_POINT,
        "role": query.role,
        "after_id": MAX_ID if query.after_id is None else query.after_id,
    }
    names = statement.compile_for(connection.dialect).parameter_names
    rows = await connection.fetch_all(statement, **{name: params[name] for name in names})
    return rows[: query.limit]


# Terms ----------------------------------------------------------------------------------

_NEW_TERMS = batch_rows("given", user_id=BigInt, term=Text())
ADD_TERMS = BatchStatement(
    insert(person_terms).from_select(["user_id", "term"], select(_NEW_TERMS).where(true()))
)
DELETE_TERMS = Statement(delete(person_terms).where(in_array(person_terms.c.user_id, "user_ids")))


async def save_terms(connection: Connection, people: Sequence[User]) -> None:
    """Replace the terms of these accounts."""
    await connection.execute(DELETE_TERMS, user_ids=[each.id for each in people])
    await add_terms(connection, people)


async def add_terms(connection: Connection, people: Sequence[User]) -> None:
    """Add the terms of new accounts."""
    rows = [
        {"user_id": each.id, "term": term}
        for each in people
        if each.erased_at is None
        for term in sorted(search_terms(each.first_name, each.last_name, each.email))
    ]
    await ADD_TERMS.execute(connection, rows)
