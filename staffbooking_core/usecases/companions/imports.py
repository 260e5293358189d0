"""Imports of companions: single batches, and files of any size that can be resumed.

Each batch is one transaction. For a file, its progress and skipped rows are saved in the same
transaction: an interrupted import resumes after its last batch, and every row is imported once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

from attrs import evolve, field, fields_dict, frozen

from staffbooking_core.bounds import provided_fields
from staffbooking_core.domain.accounts.users import Role, User, normalize_email
from staffbooking_core.domain.companions.availability import Calendar
from staffbooking_core.domain.companions.companion import Approval, Companion
from staffbooking_core.domain.companions.search_index import is_cacheable
from staffbooking_core.domain.notifications.notifications import password_changed_notification
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import InvalidField, RuleBroken, StaffbookingError
from staffbooking_core.inputs import DateHours, ImportedCompanion, WeeklyHours
from staffbooking_core.ports import ImportProgress, NewUser, Ports, SkippedRow, Transaction
from staffbooking_core.usecases.companions.profiles import parse_hours, rate_faults
from staffbooking_core.validation import validated

__all__ = [
    "ImportCounts",
    "ImportRow",
    "begin_import",
    "finish_import",
    "import_companions",
    "import_rows",
    "list_skipped_rows",
]

MAX_REASON_LENGTH = 1_000
NOT_STAFF_REASON = "email: belongs to an account that is not staff"
ERASED_REASON = "email: belongs to an account that was erased"

_IMPORT_FIELDS = fields_dict(ImportedCompanion).keys()
_PROFILE_FIELDS = _IMPORT_FIELDS & fields_dict(Companion).keys()
_CALENDAR_FIELDS = _IMPORT_FIELDS & fields_dict(Calendar).keys()

P = TypeVar("P", User, NewUser)


@frozen
class ImportCounts:
    """Outcome of one batch."""

    imported: int
    updated: int
    refused: tuple[tuple[int, str], ...]
    """Position of each refused row, and the reason."""


@validated
async def import_companions(ports: Ports, rows: Sequence[ImportedCompanion]) -> ImportCounts:
    """Import a batch in one transaction. An e-mail address that exists is updated, also by a later
    row of the same batch. An invalid row is refused with its reason and does not affect the others.

    Locks the existing users of the batch.
    """
    batch, at = await _prepare_batch(ports, dict(enumerate(rows))), ports.clock.wall()
    return await ports.store.run_transaction(lambda tx: _import_batch(tx, batch, at))


# Files ----------------------------------------------------------------------------------


@frozen
class ImportRow:
    """A row of a file: its parsed companion, or why it cannot be parsed."""

    line: int
    email: str | None
    """For display; None where it cannot be read."""
    companion: ImportedCompanion | None = None
    problem: str = ""


@validated
async def begin_import(ports: Ports, fingerprint: str, *, restart: bool = False) -> ImportProgress:
    """The progress of a file, created at line 0 if there is none; the import resumes after its
    line. With `restart`, it starts again at the first line. Locks the progress.

    Progress at line 0 is created again: it may be of an abandoned import that is being deleted.
    """

    async def unit(tx: Transaction) -> ImportProgress:
        stored = await tx.imports.lock_progress(fingerprint)
        if stored is not None and stored.line and not restart:
            return stored
        await tx.imports.delete_progress(fingerprint)
        new_progress = ImportProgress(fingerprint, 0, 0, 0, 0, ports.clock.wall())
        await tx.imports.save_progress(new_progress)
        return new_progress

    return await ports.store.run_transaction(unit)


@validated
async def import_rows(
    ports: Ports, previous: ImportProgress, rows: Sequence[ImportRow]
) -> ImportProgress:
    """Import the next rows of a file in the order of lines, at least one; returns the new progress.
    `previous` is the progress before it. Locks the progress, then the existing users.

    Raises RuleBroken `import_running` where another process imports the same file.
    """
    at = ports.clock.wall()
    readable = {row.line: row.companion for row in rows if row.companion is not None}
    batch = await _prepare_batch(ports, readable)
    unreadable = {row.line: row.problem for row in rows if row.companion is None}

    async def unit(tx: Transaction) -> ImportProgress:
        if await tx.imports.lock_progress(previous.fingerprint) != previous:
            raise RuleBroken("import_running", "the same file is being imported elsewhere")
        counts = await _import_batch(tx, batch, at)
        reasons = {**unreadable, **dict(counts.refused)}
        skipped = [
            SkippedRow(row.line, row.email, reasons[row.line][:MAX_REASON_LENGTH])
            for row in rows
            if row.line in reasons
        ]
        progress = ImportProgress(
            previous.fingerprint,
            rows[-1].line,
            previous.imported + counts.imported,
            previous.updated + counts.updated,
            previous.skipped + len(skipped),
            at,
        )
        await tx.imports.save_progress(progress, skipped)
        return progress

    return await ports.store.run_transaction(unit)


@validated
async def list_skipped_rows(
    ports: Ports, fingerprint: str, after_line: int = 0, limit: int = 500
) -> Sequence[SkippedRow]:
    """A page of a file's skipped rows above `after_line`, by line."""
    async with ports.store.read_view() as view:
        return await view.imports.skipped_rows(fingerprint, after_line, limit)


@validated
async def finish_import(ports: Ports, fingerprint: str) -> None:
    """Delete the progress of a finished file. The same file can then be imported again."""
    await ports.store.run_transaction(lambda tx: tx.imports.delete_progress(fingerprint))


# A batch --------------------------------------------------------------------------------


@frozen
class _ImportCandidate:
    """A valid row."""

    position: int
    email: str
    companion: Companion
    """The companion of a new account with only this row's values."""
    provided_fields: Set[str]
    """The fields that the row provides; the companion's other fields are defaults."""
    password_hash: str | None = field(repr=False)


@frozen
class _ImportBatch:
    candidates: Sequence[_ImportCandidate]
    refused: Sequence[tuple[int, str]]


async def _prepare_batch(ports: Ports, rows: Mapping[int, ImportedCompanion]) -> _ImportBatch:
    """Validation and password hashing, done before the transaction so that no locks are held
    meanwhile."""
    now = await ports.clock.business()
    candidates, refused = [], []
    for position, row in rows.items():
        try:
            provided = provided_fields(row)
            companion = _build_companion(provided, now, ports.policy.currency)
        except (StaffbookingError, ValueError) as error:
            refused.append((position, str(error)))
            continue
        hashed = None if row.password is None else await ports.hasher.hash(row.password)
        candidates.append(
            _ImportCandidate(position, row.email, companion, frozenset(provided), hashed)
        )
    return _ImportBatch(candidates, refused)


async def _import_batch(tx: Transaction, batch: _ImportBatch, at: datetime) -> ImportCounts:
    locked_people = await tx.imports.lock_users_by_email([each.email for each in batch.candidates])
    existing = {normalize_email(user.email): (user, companion) for user, companion in locked_people}
    added: dict[str, tuple[NewUser, Companion]] = {}
    saved: dict[str, tuple[User, Companion]] = {}
    changed_password_ids: set[int] = set()
    refused = list(batch.refused)
    for row in batch.candidates:
        email = normalize_email(row.email)
        if email in added:
            added[email] = _update_new_staff_member(*added[email], row)
        elif email not in existing:
            added[email] = _new_staff_member(row)
        elif reason := _refusal_reason(existing[email][0]):
            refused.append((row.position, reason))
        else:
            saved[email] = existing[email] = _update_staff_member(*existing[email], row)
            if row.password_hash is not None:
                changed_password_ids.add(existing[email][0].id)
    await tx.imports.add_staff_members([*added.values()])
    await tx.imports.save_staff_members([*saved.values()])
    if changed := sorted(changed_password_ids):
        await tx.imports.end_sessions_of_users(changed)
        await tx.notifications.add_notifications(
            [password_changed_notification(user_id) for user_id in changed], at
        )
    accepted_count = len(batch.candidates) + len(batch.refused) - len(refused)
    return ImportCounts(len(added), accepted_count - len(added), tuple(sorted(refused)))


def _refusal_reason(user: User) -> str:
    """Why rows may not update this user; empty where they may."""
    if user.erased_at is not None:
        return ERASED_REASON
    return "" if user.role is Role.STAFF else NOT_STAFF_REASON


def _new_staff_member(row: _ImportCandidate) -> tuple[NewUser, Companion]:
    companion = row.companion
    new = NewUser(
        row.email,
        companion.first_name,
        companion.last_name,
        Role.STAFF,
        companion.member_since,
        row.password_hash,
    )
    return new, companion


def _update_new_staff_member(
    new: NewUser, existing: Companion, row: _ImportCandidate
) -> tuple[NewUser, Companion]:
    """A second row of the same new account updates it."""
    return _with_account_fields(new, row), _merge_companion(existing, row)


def _update_staff_member(
    user: User, existing: Companion | None, row: _ImportCandidate
) -> tuple[User, Companion]:
    fresh = row.companion if existing is None else _merge_companion(existing, row)
    fresh = evolve(fresh, id=user.id, active=user.disabled_at is None)
    return _with_account_fields(user, row), fresh


def _with_account_fields(person: P, row: _ImportCandidate) -> P:
    return evolve(
        person,
        first_name=row.companion.first_name,
        last_name=row.companion.last_name,
        password_hash=row.password_hash or person.password_hash,
    )


def _merge_companion(existing: Companion, row: _ImportCandidate) -> Companion:
    """The companion with the values that the row provides. A row neither withdraws an approval nor
    lifts a suspension."""
    fresh = row.companion
    profile_values = {name: getattr(fresh, name) for name in _PROFILE_FIELDS & row.provided_fields}
    calendar_values = {
        name: getattr(fresh.calendar, name) for name in _CALENDAR_FIELDS & row.provided_fields
    }
    is_pending = existing.approval is Approval.PENDING
    return evolve(
        existing,
        **profile_values,
        calendar=evolve(existing.calendar, **calendar_values),
        approval=fresh.approval if is_pending else existing.approval,
    )


def _build_companion(provided: Mapping[str, Any], now: datetime, currency: Currency) -> Companion:
    rates = {name: provided[name] for name in ("hourly_rate", "daily_rate") if name in provided}
    try:
        minor = {name: currency.to_minor(amount) for name, amount in rates.items()}
    except ValueError:
        raise InvalidField(rate_faults(currency, rates)) from None
    profile = {name: provided[name] for name in _PROFILE_FIELDS & provided.keys()}
    return Companion(
        id=0,
        **{**profile, **minor},
        calendar=_build_calendar(
            provided["timezone"], provided.get("weekly", ()), provided.get("overrides", ())
        ),
        member_since=now,
        approval=Approval.APPROVED if provided["approved"] else Approval.PENDING,
    )


def _build_calendar(
    timezone: str, weekly: tuple[WeeklyHours, ...], overrides: tuple[DateHours, ...]
) -> Calendar:
    build = _cached_calendar if is_cacheable(weekly, overrides) else _create_calendar
    return build(timezone, weekly, overrides)


def _create_calendar(
    timezone: str, weekly: tuple[WeeklyHours, ...], overrides: tuple[DateHours, ...]
) -> Calendar:
    return Calendar(timezone, *parse_hours(weekly, overrides))


_cached_calendar = lru_cache(maxsize=4096)(_create_calendar)
