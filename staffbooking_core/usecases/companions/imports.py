"""Importing companions: batches of them, and files of any size that are gone on with.

A batch goes in as one unit of work. With a file's rows go, in the same unit, how far it went
in and what stayed out: so a file whose import was cut short goes on behind its last batch,
each row once, and is answered for as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

from attrs import evolve, field, fields_dict, frozen

from staffbooking_core.domain.accounts.users import Role, User, fold_email
from staffbooking_core.domain.companions.availability import Calendar, are_common
from staffbooking_core.domain.companions.companion import Approval, Companion
from staffbooking_core.domain.notifications.notifications import password_changed
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import InvalidField, RuleBroken, StaffbookingError
from staffbooking_core.inputs import DateHours, ImportedCompanion, WeeklyHours, said_fields
from staffbooking_core.ports import Import, NewUser, Ports, SkippedRow, Writing
from staffbooking_core.usecases.companions.profiles import rate_faults, to_hours

LONGEST_REASON = 1_000
NOT_STAFF = "email: belongs to an account that is not staff"
ERASED = "email: belongs to an account that was erased"

_SAYABLE = fields_dict(ImportedCompanion).keys()
_PROFILE = _SAYABLE & fields_dict(Companion).keys()
_HOURS = _SAYABLE & fields_dict(Calendar).keys()

P = TypeVar("P", User, NewUser)


@frozen
class ImportCounts:
    imported: int
    updated: int
    refused: tuple[tuple[int, str], ...]
    """Rows of the batch, by their position, that could not go in, and why."""


async def import_companions(ports: Ports, rows: Sequence[ImportedCompanion]) -> ImportCounts:
    """Import a batch in one unit of work; an e-mail known already is updated, also by a later
    row of the batch.

    A row that can't be honoured is refused with its reason, and the rest goes in.
    """
    batch, at = await _prepare(ports, dict(enumerate(rows))), ports.clock.wall()
    return await ports.store.write(lambda tx: _put(tx, batch, at))


# Files ----------------------------------------------------------------------------------


@frozen
class ImportRow:
    """A row of a file: what it says, or why it can't be read."""

    line: int
    email: str | None
    """As far as it can be shown."""
    companion: ImportedCompanion | None = None
    problem: str = ""


async def begin(ports: Ports, fingerprint: str, *, anew: bool = False) -> Import:
    """How far a file is in already: behind its line, if there is one, is where to go on. With
    `anew` it begins at the first, whatever became of it before."""

    async def unit(tx: Writing) -> Import:
        kept = await tx.imports.lock(fingerprint)
        if kept is not None and not anew:
            return kept
        await tx.imports.forget(fingerprint)
        fresh = Import(fingerprint, 0, 0, 0, 0, ports.clock.wall())
        await tx.imports.save(fresh)
        return fresh

    return await ports.store.write(unit)


async def put(ports: Ports, begun: Import, rows: Sequence[ImportRow]) -> Import:
    """Import the next rows of a file, at least one, in the order of their lines.

    Raises RuleBroken where somebody else goes on with the same file.
    """
    at = ports.clock.wall()
    readable = {row.line: row.companion for row in rows if row.companion is not None}
    batch = await _prepare(ports, readable)
    unread = {row.line: row.problem for row in rows if row.companion is None}

    async def unit(tx: Writing) -> Import:
        if await tx.imports.lock(begun.fingerprint) != begun:
            raise RuleBroken("import_running", "the same file is being imported elsewhere")
        counts = await _put(tx, batch, at)
        reasons = {**unread, **dict(counts.refused)}
        skipped = [
            SkippedRow(row.line, row.email, reasons[row.line][:LONGEST_REASON])
            for row in rows
            if row.line in reasons
        ]
        progress = Import(
            begun.fingerprint,
            rows[-1].line,
            begun.imported + counts.imported,
            begun.updated + counts.updated,
            begun.skipped + len(skipped),
            at,
        )
        await tx.imports.save(progress, skipped)
        return progress

    return await ports.store.write(unit)


async def skipped_rows(
    ports: Ports, fingerprint: str, after_line: int = 0, limit: int = 500
) -> Sequence[SkippedRow]:
    """A page of the rows of a file that stayed out, in the order of lines."""
    async with ports.store.reading() as view:
        return await view.imports.skipped_rows(fingerprint, after_line, limit)


async def finish(ports: Ports, fingerprint: str) -> None:
    """Forget a file that is in and answered for: from now on it would be imported again."""
    await ports.store.write(lambda tx: tx.imports.forget(fingerprint))


# A batch --------------------------------------------------------------------------------


@frozen
class _Candidate:
    """A row that may go in."""

    position: int
    email: str
    companion: Companion
    """As it is where the account is still to be made."""
    said: Set[str]
    """The fields that the row says; the others of the companion are defaults."""
    password_hash: str | None = field(repr=False)


@frozen
class _Batch:
    candidates: Sequence[_Candidate]
    refused: Sequence[tuple[int, str]]


async def _prepare(ports: Ports, rows: Mapping[int, ImportedCompanion]) -> _Batch:
    """All that needs no store, so that nobody waits while passwords are hashed."""
    now = await ports.clock.business()
    candidates, refused = [], []
    for position, row in rows.items():
        try:
            said = said_fields(row)
            companion = _companion(said, now, ports.policy.currency)
        except (StaffbookingError, ValueError) as error:
            refused.append((position, str(error)))
            continue
        hashed = None if row.password is None else await ports.hasher.hash(row.password)
        candidates.append(_Candidate(position, row.email, companion, frozenset(said), hashed))
    return _Batch(candidates, refused)


async def _put(tx: Writing, batch: _Batch, at: datetime) -> ImportCounts:
    held = await tx.imports.lock_people([each.email for each in batch.candidates])
    known = {fold_email(user.email): (user, companion) for user, companion in held}
    added: dict[str, tuple[NewUser, Companion]] = {}
    saved: dict[str, tuple[User, Companion]] = {}
    locked_out: set[int] = set()
    refused = list(batch.refused)
    for row in batch.candidates:
        email = fold_email(row.email)
        if email in added:
            added[email] = _again(*added[email], row)
        elif email not in known:
            added[email] = _newcomer(row)
        elif reason := _refusal(known[email][0]):
            refused.append((row.position, reason))
        else:
            saved[email] = known[email] = _updated(*known[email], row)
            if row.password_hash is not None:
                locked_out.add(known[email][0].id)
    await tx.imports.add_people([*added.values()])
    await tx.imports.save_people([*saved.values()])
    if changed := sorted(locked_out):
        await tx.imports.end_sessions(changed)
        await tx.notices.add([password_changed(user_id) for user_id in changed], at)
    went_in = len(batch.candidates) + len(batch.refused) - len(refused)
    return ImportCounts(len(added), went_in - len(added), tuple(sorted(refused)))


def _refusal(user: User) -> str:
    """Why no row may update them, if so."""
    if user.erased_at is not None:
        return ERASED
    return "" if user.role is Role.STAFF else NOT_STAFF


def _newcomer(row: _Candidate) -> tuple[NewUser, Companion]:
    given = row.companion
    new = NewUser(
        row.email,
        given.first_name,
        given.last_name,
        Role.STAFF,
        given.member_since,
        row.password_hash,
    )
    return new, given


def _again(new: NewUser, known: Companion, row: _Candidate) -> tuple[NewUser, Companion]:
    """A newcomer who comes twice: the later row updates."""
    return _named(new, row), _replaced(known, row)


def _updated(user: User, known: Companion | None, row: _Candidate) -> tuple[User, Companion]:
    fresh = row.companion if known is None else _replaced(known, row)
    fresh = evolve(fresh, id=user.id, active=user.disabled_at is None)
    return _named(user, row), fresh


def _named(person: P, row: _Candidate) -> P:
    return evolve(
        person,
        first_name=row.companion.first_name,
        last_name=row.companion.last_name,
        password_hash=row.password_hash or person.password_hash,
    )


def _replaced(known: Companion, row: _Candidate) -> Companion:
    """What a row says, with all else as it was: a row that is not approved takes nobody's approval
    away, and none lifts a suspension."""
    fresh = row.companion
    said = {name: getattr(fresh, name) for name in _PROFILE & row.said}
    hours = {name: getattr(fresh.calendar, name) for name in _HOURS & row.said}
    waits = known.approval is Approval.PENDING
    return evolve(
        known,
        **said,
        calendar=evolve(known.calendar, **hours),
        approval=fresh.approval if waits else known.approval,
    )


def _companion(said: Mapping[str, Any], now: datetime, currency: Currency) -> Companion:
    rates = {name: said[name] for name in ("hourly_rate", "daily_rate") if name in said}
    try:
        minor = {name: currency.to_minor(amount) for name, amount in rates.items()}
    except ValueError:
        raise InvalidField(rate_faults(currency, rates)) from None
    profile = {name: said[name] for name in _PROFILE & said.keys()}
    return Companion(
        id=0,
        **{**profile, **minor},
        calendar=_calendar(said["timezone"], said.get("weekly", ()), said.get("overrides", ())),
        member_since=now,
        approval=Approval.APPROVED if said["approved"] else Approval.PENDING,
    )


def _calendar(
    timezone: str, weekly: tuple[WeeklyHours, ...], overrides: tuple[DateHours, ...]
) -> Calendar:
    make = _shared_calendar if are_common(weekly, overrides) else _new_calendar
    return make(timezone, weekly, overrides)


def _new_calendar(
    timezone: str, weekly: tuple[WeeklyHours, ...], overrides: tuple[DateHours, ...]
) -> Calendar:
    return Calendar(timezone, *to_hours(weekly, overrides))


_shared_calendar = lru_cache(maxsize=4096)(_new_calendar)
