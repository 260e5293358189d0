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
    DateOverride,
    Slot,
    WeeklySlot,
    local_date,
    parse_hhmm,
    with_override,
    without_override,
)
from staffbooking_core.domain.companions.companion import Companion, draft_companion
from staffbooking_core.domain.companions.portfolio import (
    MEDIA_PATH_PREFIX,
    NewPortfolioItem,
    PortfolioItem,
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
    provided_fields,
)
from staffbooking_core.ports import PortfolioReadPort, Ports, Transaction
from staffbooking_core.usecases import idempotency
from staffbooking_core.usecases.companions import images
from staffbooking_core.usecases.idempotency import IdempotencyRequest

# Profile --------------------------------------------------------------------------------


async def get_profile(ports: Ports, actor: Actor) -> Companion:
    """The staff member's companion; a draft where they have said nothing yet."""
    async with ports.store.read_view() as view:
        companion = await view.companions.companion(actor.user_id)
        if companion is not None:
            return companion
        user = await view.accounts.user(actor.user_id)
    if user is None:
        raise NotFound("User")
    return draft_companion(user)


async def update_profile(ports: Ports, actor: Actor, command: ChangeProfile) -> Companion:
    """Change what is given, and keep the rest, the approval too. Raises InvalidField for money
    finer than the currency, and for a photo that is somebody else's."""
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


async def set_profile_photo(ports: Ports, actor: Actor, path: str) -> None:
    """Show another photo, or none where the path is empty. An upload that it replaces is removed,
    unless the portfolio shows it. Raises InvalidField for one that is somebody else's."""

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
    """The same with its money in minor units, or what is wrong with that."""
    rates = {name: value for name, value in provided.items() if isinstance(value, Decimal)}
    if faults := rate_faults(currency, rates):
        return provided, faults
    return {**provided, **{name: currency.to_minor(rate) for name, rate in rates.items()}}, []


def _with_changes(companion: Companion, changes: dict[str, Any]) -> Companion:
    timezone = changes.get("timezone", companion.calendar.timezone)
    others = {name: value for name, value in changes.items() if name != "timezone"}
    return evolve(companion, calendar=evolve(companion.calendar, timezone=timezone), **others)


# Hours ----------------------------------------------------------------------------------


async def set_availability(ports: Ports, actor: Actor, command: SetAvailability) -> Calendar:
    """Replace the hours that are given, and keep the others, and what is busy by other calendars.
    Raises InvalidField for slots that do not start before they end, and for dates that come
    twice."""
    provided = provided_fields(command)
    weekly, overrides = parse_hours(provided.get("weekly", ()), provided.get("overrides", ()))
    hours: dict[str, Any] = {"timezone": command.timezone, "weekly": weekly, "overrides": overrides}
    changes = {name: hours[name] for name in provided}

    async def unit(tx: Transaction) -> Calendar:
        _, companion = await lock_staff_member(tx, actor)
        calendar = evolve(companion.calendar, **changes)
        await tx.companions.save_companion(evolve(companion, calendar=calendar))
        return calendar

    return await ports.store.run_transaction(unit)


async def set_date_hours(ports: Ports, actor: Actor, command: DateHours) -> Calendar:
    """Set the hours of one date in the place of those it had, and keep all others but those of
    dates that are over. Raises InvalidField for slots that do not start before they end, for a
    date that is over, and where too many are set."""
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


async def clear_date_hours(ports: Ports, actor: Actor, day: date) -> None:
    """The weekly hours rule the date again, if it had others."""

    async def unit(tx: Transaction) -> None:
        companion = await tx.companions.lock_companion(actor.user_id)
        if companion is not None:
            changed = without_override(companion.calendar, day)
            await tx.companions.save_companion(evolve(companion, calendar=changed))

    await ports.store.run_transaction(unit)


# Portfolio ------------------------------------------------------------------------------


async def list_portfolio_items(ports: Ports, actor: Actor) -> Sequence[PortfolioItem]:
    """All of the staff member's items, the newest first."""
    async with ports.store.read_view() as view:
        return await view.portfolio.portfolio_items_of(actor.user_id)


async def add_portfolio_item(
    ports: Ports,
    actor: Actor,
    command: AddPortfolioItem,
    idempotency_request: IdempotencyRequest[NewPortfolioItem] | None = None,
) -> PortfolioItem:
    """Add an item, which others see once it is approved. Raises InvalidField for an image that
    is somebody else's, RuleBroken `too_many_portfolio_items`, and AnsweredBefore where the call
    was made before."""
    now, max_items = await ports.clock.business(), ports.policy.max_portfolio_items
    new = NewPortfolioItem(actor.user_id, command.title, command.image, command.description, now)
    response = (
        None
        if idempotency_request is None
        else idempotency.response_for(ports, idempotency_request, new)
    )

    async def unit(tx: Transaction) -> PortfolioItem:
        if response is not None:
            await tx.idempotency.save_response(response)  # First, so that a twin is told as such.
        _, companion = await lock_staff_member(tx, actor)
        if faults := await _image_faults(tx.portfolio, actor, "image", command.image):
            raise InvalidField(faults)
        if len(await tx.portfolio.portfolio_items_of(companion.id)) >= max_items:
            raise RuleBroken(
                "too_many_portfolio_items", f"A portfolio has at most {max_items} items"
            )
        return await tx.portfolio.add_portfolio_item(new)

    async with idempotency.replay_on_conflict(ports, idempotency_request):
        return await ports.store.run_transaction(unit)


async def remove_portfolio_item(ports: Ports, actor: Actor, item_id: int) -> None:
    """Take an item of one's own out of the portfolio, and of what others see of it. Its image
    stays."""

    async def unit(tx: Transaction) -> None:
        await _remove_item(tx, actor, item_id)

    await ports.store.run_transaction(unit)


async def remove_portfolio_item_and_image(ports: Ports, actor: Actor, item_id: int) -> None:
    """The same, and its image is removed with it, unless something else shows that."""

    async def unit(tx: Transaction) -> Sequence[str]:
        await tx.accounts.lock_user(actor.user_id)  # Whoever drops images holds their owner.
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


# Both -----------------------------------------------------------------------------------


async def lock_staff_member(tx: Transaction, actor: Actor) -> tuple[User, Companion]:
    """The staff member, and their companion, which is stored from now on. The user is held
    first, so that of two first changes at once the second finds what the first has stored."""
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
    """What is wrong with the path of an image: uploads are for those who made them."""
    if (
        not path.startswith(MEDIA_PATH_PREFIX)
        or await images.find_own_image(portfolio, actor, path) is not None
    ):
        return []
    return [FieldError(field, "is not an image that you uploaded")]


# What is given, by its owner or an operator --------------------------------------------


def rate_faults(currency: Currency, rates: Mapping[str, Decimal]) -> list[FieldError]:
    """What is wrong with amounts of money, by their fields, for a currency's decimals."""
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
    """The hours of a calendar. Raises InvalidField with every slot that does not start before it
    ends, and for a date that comes twice."""
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
    """Each slot with its dotted path."""
    for position, slot in enumerate(weekly):
        yield f"weekly.{position}", slot
    for position, day in enumerate(overrides):
        for place, each in _day_slot_paths(day):
            yield f"overrides.{position}.{place}", each


def _day_slot_paths(day: DateHours) -> Iterator[tuple[str, SlotHours]]:
    for number, slot in enumerate(day.slots):
        yield f"slots.{number}", slot


def _order_faults(slot_paths: Iterable[tuple[str, SlotHours]]) -> list[FieldError]:
    """Slots that do not start before they end."""
    # The two are HH:MM to the letter: in the order of texts as in that of times.
    return [
        FieldError(f"{place}.start", "must be before end")
        for place, slot in slot_paths
        if slot.start >= slot.end
    ]


def _to_override(hours: DateHours) -> DateOverride:
    return DateOverride(hours.date, tuple(map(_to_slot, hours.slots)))


def _to_slot(hours: SlotHours) -> Slot:
    return Slot(parse_hhmm(hours.start), parse_hhmm(hours.end, ending=True))
