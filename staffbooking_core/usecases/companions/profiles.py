"""What staff members keep of themselves: profile, hours, portfolio (CONTRACT 3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from attrs import evolve

from staffbooking_core.domain.accounts.users import Actor, User
from staffbooking_core.domain.companions.availability import (
    Calendar,
    Override,
    Slot,
    WeeklySlot,
    local_date,
    parse_hhmm,
    with_date,
    without_date,
)
from staffbooking_core.domain.companions.companion import Companion, draft
from staffbooking_core.domain.companions.portfolio import MEDIA, NewItem, PortfolioItem
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import Fault, InvalidField, NotFound, RuleBroken, invalid
from staffbooking_core.inputs import (
    MAX_OVERRIDES,
    AddPortfolioItem,
    ChangeProfile,
    DateHours,
    Hours,
    SetAvailability,
    WeeklyHours,
    said_fields,
)
from staffbooking_core.ports import Ports, Reading, Writing
from staffbooking_core.usecases import idempotency
from staffbooking_core.usecases.companions import images
from staffbooking_core.usecases.idempotency import Keep

# Profile --------------------------------------------------------------------------------


async def profile(ports: Ports, actor: Actor) -> Companion:
    """The staff member's companion; a draft where they have said nothing yet."""
    async with ports.store.reading() as view:
        companion = await view.companions.companion(actor.user_id)
        if companion is not None:
            return companion
        user = await view.accounts.user(actor.user_id)
    if user is None:
        raise NotFound("User")
    return draft(user)


async def change_profile(ports: Ports, actor: Actor, given: ChangeProfile) -> Companion:
    """Change what is given, and keep the rest, the approval too. Raises InvalidField for money
    finer than the currency, and for a photo that is somebody else's."""
    said = said_fields(given)
    changes, faults = _in_minor_units(said, ports.policy.currency)

    async def unit(tx: Writing) -> Companion:
        user, companion = await hold(tx, actor)
        photo = said.get("profile_photo", "")
        if wrong := [*faults, *await _image_faults(tx, actor, "profile_photo", photo)]:
            raise InvalidField(wrong)
        changed = _changed(companion, changes)
        named = evolve(user, first_name=changed.first_name, last_name=changed.last_name)
        if named != user:
            await tx.accounts.save_user(named)
        await tx.companions.save_companion(changed)
        return changed

    return await ports.store.write(unit)


async def set_photo(ports: Ports, actor: Actor, path: str) -> None:
    """Show another photo, or none where the path is empty. An upload that it replaces is removed,
    unless the portfolio shows it. Raises InvalidField for one that is somebody else's."""

    async def unit(tx: Writing) -> Sequence[str]:
        _, companion = await hold(tx, actor)
        if faults := await _image_faults(tx, actor, "profile_photo", path):
            raise InvalidField(faults)
        await tx.companions.save_companion(evolve(companion, profile_photo=path))
        return await images.drop_unshown(tx, await images.own(tx, actor, companion.profile_photo))

    await images.remove_files(ports, await ports.store.write(unit))


def _in_minor_units(said: dict[str, Any], currency: Currency) -> tuple[dict[str, Any], list[Fault]]:
    """The same with its money in minor units, or what is wrong with that."""
    rates = {name: value for name, value in said.items() if isinstance(value, Decimal)}
    if faults := rate_faults(currency, rates):
        return said, faults
    return {**said, **{name: currency.to_minor(rate) for name, rate in rates.items()}}, []


def _changed(companion: Companion, changes: dict[str, Any]) -> Companion:
    timezone = changes.get("timezone", companion.calendar.timezone)
    others = {name: value for name, value in changes.items() if name != "timezone"}
    return evolve(companion, calendar=evolve(companion.calendar, timezone=timezone), **others)


# Hours ----------------------------------------------------------------------------------


async def set_availability(ports: Ports, actor: Actor, given: SetAvailability) -> Calendar:
    """Replace the hours that are given, and keep the others, and what is busy by other calendars.
    Raises InvalidField for slots that do not start before they end, and for dates that come
    twice."""
    said = said_fields(given)
    weekly, overrides = to_hours(said.get("weekly", ()), said.get("overrides", ()))
    hours: dict[str, Any] = {"timezone": given.timezone, "weekly": weekly, "overrides": overrides}
    changes = {name: hours[name] for name in said}

    async def unit(tx: Writing) -> Calendar:
        _, companion = await hold(tx, actor)
        calendar = evolve(companion.calendar, **changes)
        await tx.companions.save_companion(evolve(companion, calendar=calendar))
        return calendar

    return await ports.store.write(unit)


async def set_day(ports: Ports, actor: Actor, given: DateHours) -> Calendar:
    """Set the hours of one date in the place of those it had, and keep all others but those of
    dates that are over. Raises InvalidField for slots that do not start before they end, for a
    date that is over, and where too many are set."""
    if faults := _disorder(_places_of(given)):
        raise InvalidField(faults)
    now = await ports.clock.business()

    async def unit(tx: Writing) -> Calendar:
        _, companion = await hold(tx, actor)
        today = local_date(companion.calendar.timezone, now)
        if given.date < today:
            raise invalid("date", "lies in the past")
        changed = with_date(companion.calendar, _override(given), today)
        if len(changed.overrides) > MAX_OVERRIDES:
            raise invalid("date", f"is one too many: at most {MAX_OVERRIDES} may be set")
        await tx.companions.save_companion(evolve(companion, calendar=changed))
        return changed

    return await ports.store.write(unit)


async def clear_day(ports: Ports, actor: Actor, day: date) -> None:
    """The weekly hours rule the date again, if it had others."""

    async def unit(tx: Writing) -> None:
        companion = await tx.companions.lock_companion(actor.user_id)
        if companion is not None:
            changed = without_date(companion.calendar, day)
            await tx.companions.save_companion(evolve(companion, calendar=changed))

    await ports.store.write(unit)


# Portfolio ------------------------------------------------------------------------------


async def portfolio(ports: Ports, actor: Actor) -> Sequence[PortfolioItem]:
    """All of the staff member's items, the newest first."""
    async with ports.store.reading() as view:
        return await view.staff.portfolio_of(actor.user_id)


async def add_item(
    ports: Ports, actor: Actor, given: AddPortfolioItem, keep: Keep[NewItem] | None = None
) -> PortfolioItem:
    """Add an item, which others see once it is approved. Raises InvalidField for an image that
    is somebody else's, RuleBroken `too_many_portfolio_items`, and AnsweredBefore where the call
    was made before."""
    now, most = await ports.clock.business(), ports.policy.max_portfolio_items
    new = NewItem(actor.user_id, given.title, given.image, given.description, now)
    answer = None if keep is None else idempotency.made(ports, keep, new)

    async def unit(tx: Writing) -> PortfolioItem:
        if answer is not None:
            await tx.bookings.keep_answer(answer)  # First, so that a twin is told as such.
        _, companion = await hold(tx, actor)
        if faults := await _image_faults(tx, actor, "image", given.image):
            raise InvalidField(faults)
        if len(await tx.staff.portfolio_of(companion.id)) >= most:
            raise RuleBroken("too_many_portfolio_items", f"A portfolio has at most {most} items")
        return await tx.staff.add_item(new)

    async with idempotency.once(ports, keep):
        return await ports.store.write(unit)


async def remove_item(ports: Ports, actor: Actor, item_id: int) -> None:
    """Take an item of one's own out of the portfolio, and of what others see of it. Its image
    stays."""

    async def unit(tx: Writing) -> None:
        await _take_out(tx, actor, item_id)

    await ports.store.write(unit)


async def remove_item_and_image(ports: Ports, actor: Actor, item_id: int) -> None:
    """The same, and its image is removed with it, unless something else shows that."""

    async def unit(tx: Writing) -> Sequence[str]:
        await tx.accounts.lock_user(actor.user_id)  # Whoever drops images holds their owner.
        item = await _take_out(tx, actor, item_id)
        return await images.drop_unshown(tx, await images.own(tx, actor, item.image))

    await images.remove_files(ports, await ports.store.write(unit))


async def _take_out(tx: Writing, actor: Actor, item_id: int) -> PortfolioItem:
    companion = await tx.companions.lock_companion(actor.user_id)
    item = await tx.staff.portfolio_item(item_id)
    if companion is None or item is None or item.companion_id != companion.id:
        raise NotFound("Portfolio item")
    await tx.staff.remove_item(item_id)
    await tx.companions.save_companion(companion)
    return item


# Both -----------------------------------------------------------------------------------


async def hold(tx: Writing, actor: Actor) -> tuple[User, Companion]:
    """The staff member, and their companion, which is stored from now on. The user is held
    first, so that of two first changes at once the second finds what the first has stored."""
    user = await tx.accounts.lock_user(actor.user_id)
    if user is None or user.erased_at is not None:
        raise NotFound("User")
    companion = await tx.companions.lock_companion(user.id)
    if companion is None:
        companion = draft(user)
        await tx.companions.save_companion(companion)
    return user, companion


async def _image_faults(view: Reading, actor: Actor, field: str, path: str) -> list[Fault]:
    """What is wrong with the path of an image: uploads are for those who made them."""
    if not path.startswith(MEDIA) or await images.own(view, actor, path) is not None:
        return []
    return [Fault(field, "is not an image that you uploaded")]


# What is given, by its owner or an operator --------------------------------------------


def rate_faults(currency: Currency, rates: Mapping[str, Decimal]) -> list[Fault]:
    """What is wrong with amounts of money, by their fields, for a currency's decimals."""
    faults = []
    for field, amount in rates.items():
        try:
            currency.to_minor(amount)
        except ValueError as error:
            faults.append(Fault(field, str(error)))
    return faults


def to_hours(
    weekly: Sequence[WeeklyHours], overrides: Sequence[DateHours]
) -> tuple[tuple[WeeklySlot, ...], tuple[Override, ...]]:
    """The hours of a calendar. Raises InvalidField with every slot that does not start before it
    ends, and for a date that comes twice."""
    faults = _disorder(_places(weekly, overrides))
    if len({given.date for given in overrides}) < len(overrides):
        faults.append(Fault("overrides", "names a date twice"))
    if faults:
        raise InvalidField(faults)
    return (
        tuple(WeeklySlot(given.weekday, _slot(given)) for given in weekly),
        tuple(map(_override, overrides)),
    )


def _places(
    weekly: Sequence[WeeklyHours], overrides: Sequence[DateHours]
) -> Iterator[tuple[str, Hours]]:
    """Each slot with its dotted path."""
    for position, slot in enumerate(weekly):
        yield f"weekly.{position}", slot
    for position, day in enumerate(overrides):
        for place, each in _places_of(day):
            yield f"overrides.{position}.{place}", each


def _places_of(day: DateHours) -> Iterator[tuple[str, Hours]]:
    for number, slot in enumerate(day.slots):
        yield f"slots.{number}", slot


def _disorder(places: Iterable[tuple[str, Hours]]) -> list[Fault]:
    """Slots that do not start before they end."""
    # The two are HH:MM to the letter: in the order of texts as in that of times.
    return [
        Fault(f"{place}.start", "must be before end")
        for place, slot in places
        if slot.start >= slot.end
    ]


def _override(given: DateHours) -> Override:
    return Override(given.date, tuple(map(_slot, given.slots)))


def _slot(given: Hours) -> Slot:
    return Slot(parse_hhmm(given.start), parse_hhmm(given.end, ending=True))
