"""Profile, hours and portfolio of staff members (CONTRACT 3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from attrs import evolve

from staffbooking_core.bounds import provided_fields
from staffbooking_core.domain.accounts.users import Actor, User
from staffbooking_core.domain.companions.availability import (
    Calendar,
    DateOverride,
    Slot,
    WeeklySlot,
    daily_availability,
    local_date,
    parse_hhmm,
)
from staffbooking_core.domain.companions.companion import Companion, draft_companion
from staffbooking_core.domain.companions.overrides import with_override, without_override
from staffbooking_core.domain.companions.portfolio import (
    MEDIA_PATH_PREFIX,
    NewPortfolioItem,
    PortfolioItem,
    move_item,
)
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import FieldError, InvalidField, NotFound, RuleBroken, invalid_field
from staffbooking_core.inputs import (
    MAX_DATE_OVERRIDES,
    AddPortfolioItem,
    ChangeProfile,
    DateHours,
    SetAvailability,
    SlotHours,
    WeeklyHours,
)
from staffbooking_core.ports import PortfolioReadPort, Ports, Transaction
from staffbooking_core.representations.calendars import FreeDaysRecord, free_days_record
from staffbooking_core.usecases.companions import images
from staffbooking_core.validation import validated

__all__ = [
    "add_portfolio_item",
    "clear_date_hours",
    "get_portfolio_item",
    "get_profile",
    "list_portfolio_items",
    "lock_staff_member",
    "move_portfolio_item",
    "parse_hours",
    "preview_availability",
    "rate_faults",
    "remove_portfolio_item",
    "remove_portfolio_item_and_image",
    "set_availability",
    "set_date_hours",
    "set_profile_photo",
    "update_profile",
]

# Profile --------------------------------------------------------------------------------


@validated
async def get_profile(ports: Ports, actor: Actor) -> Companion:
    """The staff member's companion; a draft where none is stored. Raises NotFound."""
    async with ports.store.read_view() as view:
        companion = await view.companions.companion(actor.user_id)
        if companion is not None:
            return companion
        user = await view.accounts.user(actor.user_id)
    if user is None:
        raise NotFound("User")
    return draft_companion(user)


async def preview_availability(
    ports: Ports, companion: Companion, start_date: date, end_date: date
) -> FreeDaysRecord:
    """The free slots of each local day, both dates included, of a companion who is not listed yet:
    by their hours alone, as they have no bookings."""
    now = await ports.clock.business()
    days = daily_availability(companion.calendar, (), start_date, end_date, now)
    timezone = companion.calendar.timezone
    return free_days_record(companion.id, timezone, start_date, end_date, days)


@validated
async def update_profile(ports: Ports, actor: Actor, command: ChangeProfile) -> Companion:
    """Change the given fields of the profile; the approval stays. Locks the user, then the
    companion.

    Raises InvalidField for amounts with more decimals than the currency and for somebody else's
    photo, and NotFound.
    """
    provided = provided_fields(command)
    changes, faults = _rates_to_minor_units(provided, ports.policy.currency)

    async def unit(tx: Transaction) -> Companion:
        user, companion = await lock_staff_member(tx, actor)
        photo = provided.get("profile_photo", "")
        if wrong := [*faults, *await _image_faults(tx.portfolio, actor, "profile_photo", photo)]:
            raise InvalidField(wrong)
        changed = _with_changes(companion, changes)
        named = evolve(user, first_name=changed.first_name, last_name=changed.last_name)
        if named != user:
            await tx.accounts.save_user(named)
        await tx.companions.save_companion(changed)
        return changed

    return await ports.store.run_transaction(unit)


@validated
async def set_profile_photo(ports: Ports, actor: Actor, path: str) -> None:
    """Show another photo, or none for an empty path. The previous upload is removed unless the
    portfolio shows it. Locks the user, then the companion.

    Raises InvalidField on `profile_photo` for somebody else's image, and NotFound.
    """

    async def unit(tx: Transaction) -> Sequence[str]:
        _, companion = await lock_staff_member(tx, actor)
        if faults := await _image_faults(tx.portfolio, actor, "profile_photo", path):
            raise InvalidField(faults)
        await tx.companions.save_companion(evolve(companion, profile_photo=path))
        return await images.delete_unused_image(
            tx, await images.find_own_image(tx.portfolio, actor, companion.profile_photo)
        )

    await images.remove_files(ports, await ports.store.run_transaction(unit))


def _rates_to_minor_units(
    provided: dict[str, Any], currency: Currency
) -> tuple[dict[str, Any], list[FieldError]]:
    """The fields with amounts in minor units, or their faults."""
    rates = {name: value for name, value in provided.items() if isinstance(value, Decimal)}
    if faults := rate_faults(currency, rates):
        return provided, faults
    return {**provided, **{name: currency.to_minor(rate) for name, rate in rates.items()}}, []


def _with_changes(companion: Companion, changes: dict[str, Any]) -> Companion:
    timezone = changes.get("timezone", companion.calendar.timezone)
    others = {name: value for name, value in changes.items() if name != "timezone"}
    return evolve(companion, calendar=evolve(companion.calendar, timezone=timezone), **others)


# Hours ----------------------------------------------------------------------------------


@validated
async def set_availability(ports: Ports, actor: Actor, command: SetAvailability) -> Calendar:
    """Replace the given hours and booking limits (minutes, hours, days); others and imported busy
    times stay. Locks the user, then the companion.

    Raises InvalidField for slots that do not start before they end and for repeated dates, and
    NotFound.
    """
    provided = provided_fields(command)
    weekly, overrides = parse_hours(provided.get("weekly", ()), provided.get("overrides", ()))
    hours: dict[str, Any] = {"timezone": command.timezone, "weekly": weekly, "overrides": overrides}
    changes = {name: hours[name] for name in provided if name in hours}
    new_limits = {name: value for name, value in provided.items() if name not in hours}

    async def unit(tx: Transaction) -> Calendar:
        _, companion = await lock_staff_member(tx, actor)
        limits = evolve(companion.calendar.limits, **new_limits)
        calendar = evolve(companion.calendar, limits=limits, **changes)
        await tx.companions.save_companion(evolve(companion, calendar=calendar))
        return calendar

    return await ports.store.run_transaction(unit)


@validated
async def set_date_hours(ports: Ports, actor: Actor, command: DateHours) -> Calendar:
    """Replace the hours of one date, and drop those of past dates. Locks the user, then the
    companion.

    Raises InvalidField for slots that do not start before they end, a past date, or too many dates,
    and NotFound.
    """
    if faults := _order_faults(_day_slot_paths(command)):
        raise InvalidField(faults)
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> Calendar:
        _, companion = await lock_staff_member(tx, actor)
        today = local_date(companion.calendar.timezone, now)
        if command.date < today:
            raise invalid_field("date", "lies in the past")
        changed = with_override(companion.calendar, _to_override(command), today)
        if len(changed.overrides) > MAX_DATE_OVERRIDES:
            raise invalid_field("date", f"is one too many: at most {MAX_DATE_OVERRIDES} may be set")
        await tx.companions.save_companion(evolve(companion, calendar=changed))
        return changed

    return await ports.store.run_transaction(unit)


@validated
async def clear_date_hours(ports: Ports, actor: Actor, day: date) -> None:
    """Remove the hours of one date, so that the weekly hours apply. Locks the companion."""

    async def unit(tx: Transaction) -> None:
        companion = await tx.companions.lock_companion(actor.user_id)
        if companion is not None:
            changed = without_override(companion.calendar, day)
            await tx.companions.save_companion(evolve(companion, calendar=changed))

    await ports.store.run_transaction(unit)


# Portfolio ------------------------------------------------------------------------------


@validated
async def list_portfolio_items(ports: Ports, actor: Actor) -> Sequence[PortfolioItem]:
    """All portfolio items of the staff member in the order in which they are shown."""
    async with ports.store.read_view() as view:
        return await view.portfolio.portfolio_items_of(actor.user_id)


@validated
async def get_portfolio_item(ports: Ports, actor: Actor, item_id: int) -> PortfolioItem:
    """A portfolio item of the actor, shown or not. Raises NotFound."""
    async with ports.store.read_view() as view:
        item = await view.portfolio.portfolio_item(item_id)
    if item is None or item.companion_id != actor.user_id:
        raise NotFound("Portfolio item")
    return item


@validated
async def add_portfolio_item(
    ports: Ports, actor: Actor, command: AddPortfolioItem
) -> PortfolioItem:
    """Add a portfolio item; others see it once it is approved. Locks the user, then the companion.

    Raises InvalidField on `image` for somebody else's image, RuleBroken `too_many_portfolio_items`,
    and NotFound.
    """
    now, max_items = await ports.clock.business(), ports.policy.max_portfolio_items
    new = NewPortfolioItem(actor.user_id, command.title, command.image, command.description, now)

    async def unit(tx: Transaction) -> PortfolioItem:
        _, companion = await lock_staff_member(tx, actor)
        if faults := await _image_faults(tx.portfolio, actor, "image", command.image):
            raise InvalidField(faults)
        if len(await tx.portfolio.portfolio_items_of(companion.id)) >= max_items:
            raise RuleBroken(
                "too_many_portfolio_items", f"A portfolio has at most {max_items} items"
            )
        return await tx.portfolio.add_portfolio_item(new)

    return await ports.store.run_transaction(unit)


@validated
async def move_portfolio_item(ports: Ports, actor: Actor, item_id: int, *, earlier: bool) -> None:
    """Let a portfolio item of the actor trade its place with its neighbour; nothing at either end.
    Locks the companion. Raises NotFound."""

    async def unit(tx: Transaction) -> None:
        companion = await tx.companions.lock_companion(actor.user_id)
        items = await tx.portfolio.portfolio_items_of(actor.user_id)
        if companion is None or item_id not in {item.id for item in items}:
            raise NotFound("Portfolio item")
        for item in move_item(items, item_id, earlier=earlier):
            await tx.portfolio.save_portfolio_item(item)
        await tx.companions.save_companion(companion)

    await ports.store.run_transaction(unit)


@validated
async def remove_portfolio_item(ports: Ports, actor: Actor, item_id: int) -> None:
    """Remove a portfolio item of the actor; its image stays. Locks the companion. Raises
    NotFound."""

    async def unit(tx: Transaction) -> None:
        await _remove_item(tx, actor, item_id)

    await ports.store.run_transaction(unit)


@validated
async def remove_portfolio_item_and_image(ports: Ports, actor: Actor, item_id: int) -> None:
    """Remove a portfolio item of the actor, and its image unless something else shows it. Locks the
    user, then the companion. Raises NotFound."""

    async def unit(tx: Transaction) -> Sequence[str]:
        await tx.accounts.lock_user(actor.user_id)  # Images are deleted under their owner's lock.
        item = await _remove_item(tx, actor, item_id)
        return await images.delete_unused_image(
            tx, await images.find_own_image(tx.portfolio, actor, item.image)
        )

    await images.remove_files(ports, await ports.store.run_transaction(unit))


async def _remove_item(tx: Transaction, actor: Actor, item_id: int) -> PortfolioItem:
    companion = await tx.companions.lock_companion(actor.user_id)
    item = await tx.portfolio.portfolio_item(item_id)
    if companion is None or item is None or item.companion_id != companion.id:
        raise NotFound("Portfolio item")
    await tx.portfolio.remove_portfolio_item(item_id)
    await tx.companions.save_companion(companion)
    return item


# Shared ---------------------------------------------------------------------------------


async def lock_staff_member(tx: Transaction, actor: Actor) -> tuple[User, Companion]:
    """The staff member and their companion, both locked; a missing companion is stored as a draft.
    The user is locked first, so that of two concurrent first changes the second finds the companion
    of the first.

    Raises NotFound.
    """
    user = await tx.accounts.lock_user(actor.user_id)
    if user is None or user.erased_at is not None:
        raise NotFound("User")
    companion = await tx.companions.lock_companion(user.id)
    if companion is None:
        companion = draft_companion(user)
        await tx.companions.save_companion(companion)
    return user, companion


async def _image_faults(
    portfolio: PortfolioReadPort, actor: Actor, field: str, path: str
) -> list[FieldError]:
    """The fault of an image path that is an upload of somebody else."""
    if (
        not path.startswith(MEDIA_PATH_PREFIX)
        or await images.find_own_image(portfolio, actor, path) is not None
    ):
        return []
    return [FieldError(field, "is not an image that you uploaded")]


# Parsing -------------------------------------------------------------------------------


def rate_faults(currency: Currency, rates: Mapping[str, Decimal]) -> list[FieldError]:
    """The faults of amounts, by field: more decimals than the currency has."""
    faults = []
    for field, amount in rates.items():
        try:
            currency.to_minor(amount)
        except ValueError as error:
            faults.append(FieldError(field, str(error)))
    return faults


def parse_hours(
    weekly: Sequence[WeeklyHours], overrides: Sequence[DateHours]
) -> tuple[tuple[WeeklySlot, ...], tuple[DateOverride, ...]]:
    """Weekly slots and date overrides of a calendar.

    Raises InvalidField with every slot that does not start before it ends, and for repeated dates.
    """
    faults = _order_faults(_slot_paths(weekly, overrides))
    if len({given.date for given in overrides}) < len(overrides):
        faults.append(FieldError("overrides", "names a date twice"))
    if faults:
        raise InvalidField(faults)
    return (
        tuple(WeeklySlot(given.weekday, _to_slot(given)) for given in weekly),
        tuple(map(_to_override, overrides)),
    )


def _slot_paths(
    weekly: Sequence[WeeklyHours], overrides: Sequence[DateHours]
) -> Iterator[tuple[str, SlotHours]]:
    """Each slot with its dotted field path."""
    for position, slot in enumerate(weekly):
        yield f"weekly.{position}", slot
    for position, day in enumerate(overrides):
        for place, each in _day_slot_paths(day):
            yield f"overrides.{position}.{place}", each


def _day_slot_paths(day: DateHours) -> Iterator[tuple[str, SlotHours]]:
    for number, slot in enumerate(day.slots):
        yield f"slots.{number}", slot


def _order_faults(slot_paths: Iterable[tuple[str, SlotHours]]) -> list[FieldError]:
    """The faults of slots that do not start before they end."""
    # Both are exactly HH:MM, so that they compare as texts.
    return [
        FieldError(f"{place}.start", "must be before end")
        for place, slot in slot_paths
        if slot.start >= slot.end
    ]


def _to_override(hours: DateHours) -> DateOverride:
    return DateOverride(hours.date, tuple(map(_to_slot, hours.slots)))


def _to_slot(hours: SlotHours) -> Slot:
    return Slot(parse_hhmm(hours.start), parse_hhmm(hours.end, ending=True))
