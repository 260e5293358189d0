"""People as operators find and see them (CONTRACT 10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_core.domain.accounts.api_keys import ApiKey
from staffbooking_core.domain.accounts.audit import AuditEntry
from staffbooking_core.domain.accounts.users import (
    AccountState,
    Role,
    User,
    fold_search_text,
    is_session_valid,
)
from staffbooking_core.domain.bookings.booking import BOOKING_CODE_LENGTH, Booking
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.domain.companions.reviews import RatingTotals, Review
from staffbooking_core.domain.payments.payees import Payee
from staffbooking_core.domain.privacy import has_open_obligations
from staffbooking_core.errors import NotFound, RuleBroken
from staffbooking_core.ports import (
    AccountsWritePort,
    BookingQuery,
    PeopleQuery,
    Ports,
    ReadView,
    Transaction,
    WebhooksWritePort,
)
from staffbooking_core.validation import validated

__all__ = [
    "PeopleFilter",
    "PeoplePage",
    "PersonFile",
    "delete_endpoints_of",
    "find_people",
    "get_person",
    "set_role",
]

_MAX_DIGITS = 18


@frozen(kw_only=True)
class PeopleFilter:
    """Whom an operator looks for: the beginning of a name or e-mail address, an id, or the code of
    a booking, whose two sides are meant."""

    text: str = ""
    role: Role | None = None
    state: AccountState | None = None

    def accepts(self, user: User) -> bool:
        """Whether the user has the wanted role and state."""
        return self.role in (None, user.role) and self.state in (None, user.state)


@frozen
class PeoplePage:
    """A page of people; those that the text names exactly come first on the first page."""

    people: Sequence[User]
    photos: Mapping[int, str]
    """The profile photos of those who have one, by id."""
    booking: Booking | None
    """The booking whose code was given."""
    next_after_id: int | None
    """Where the next page begins; None on the last one."""


@validated
async def find_people(
    ports: Ports, wanted: PeopleFilter, after_id: int | None, limit: int
) -> PeoplePage:
    """A page of people: those found by the text in the order of what was found, without a text the
    newest accounts first."""
    text = wanted.text.strip()
    async with ports.store.read_view() as view:
        booking = await _booking_by_code(view, text)
        exact = [] if after_id is not None else await _named_exactly(view, text, booking)
        query = PeopleQuery(
            term=fold_search_text(text),
            role=wanted.role,
            state=wanted.state,
            after_id=after_id,
            limit=limit + 1,
        )
        # A text that folds to nothing, such as an accent alone, finds nobody.
        found = [] if text and not query.term else await view.accounts.find_people(query)
        page = found[:limit]
        known = {each.id for each in exact}
        people = [each for each in exact if wanted.accepts(each)]
        people += [each for each in page if each.id not in known]
        photos = await view.companions.profile_photos([each.id for each in people])
    has_more = len(found) > limit
    return PeoplePage(people, photos, booking, page[-1].id if has_more else None)


async def _booking_by_code(view: ReadView, text: str) -> Booking | None:
    if len(text) != BOOKING_CODE_LENGTH or not (text.isascii() and text.isalnum()):
        return None
    return await view.bookings.booking_by_code(text.upper())


async def _named_exactly(view: ReadView, text: str, booking: Booking | None) -> list[User]:
    ids: list[int] = []
    if booking is not None:
        ids = [booking.customer_id, booking.companion_id, *filter(None, [booking.booked_by])]
    elif text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
        ids = [int(text)]
    found = [await view.accounts.user(user_id) for user_id in dict.fromkeys(ids)]
    return [each for each in found if each is not None]


@frozen(kw_only=True)
class PersonFile:
    """What an operator sees of a person."""

    user: User
    companion: Companion | None
    payee: Payee | None
    sessions: int
    """How many browsers are signed in."""
    keys: Sequence[ApiKey]
    """The newest first, revoked ones too."""
    bookings: Sequence[Booking]
    """A page of all bookings as either side or as the agency, the newest event first."""
    has_more_bookings: bool
    ratings: RatingTotals
    reviews: Sequence[Review]
    """The newest visible reviews of the person."""
    endpoints: int
    audit: Sequence[AuditEntry]
    """What operators did to the account, the newest first."""


_MAX_BOOKINGS = 8
_MAX_REVIEWS = 3
_MAX_AUDIT_ENTRIES = 20


@validated
async def get_person(ports: Ports, user_id: int, page: int = 1) -> PersonFile:
    """A person with a page of their bookings. Raises NotFound."""
    query = BookingQuery(user_id=user_id, page=page, limit=_MAX_BOOKINGS)
    async with ports.store.read_view() as view:
        user = await view.accounts.user(user_id)
        if user is None:
            raise NotFound("User")
        is_staff = user.role is Role.STAFF
        bookings = await view.bookings.bookings(query)
        return PersonFile(
            user=user,
            companion=await view.companions.companion(user_id) if is_staff else None,
            payee=await view.payees.payee(ports.payments.name, user_id) if is_staff else None,
            sessions=await _count_sessions(ports, view, user),
            keys=await view.accounts.api_keys_of(user_id),
            bookings=bookings[:_MAX_BOOKINGS],
            has_more_bookings=len(bookings) > _MAX_BOOKINGS,
            ratings=await view.reviews.ratings_of(user_id) or RatingTotals(0, 0),
            reviews=await view.reviews.reviews_of(user_id, 1, _MAX_REVIEWS),
            endpoints=len(await view.webhooks.endpoints_of(user_id)),
            audit=await view.audit.audit_entries_about(user_id, _MAX_AUDIT_ENTRIES),
        )


async def _count_sessions(ports: Ports, view: ReadView, user: User) -> int:
    now: datetime = ports.clock.wall()
    policy = ports.policy
    limits = {"idle_timeout": policy.session_idle, "lifetime": policy.session_lifetime}
    found = await view.accounts.sessions_of(user.id)
    return sum(is_session_valid(each, user, now, **limits) for each in found)


@validated
async def set_role(ports: Ports, user_id: int, role: Role, actor_id: int) -> User:
    """Make a customer an operator, or an operator a customer; all sessions of the account end, and
    its webhooks are deleted: those of an operator get deliveries of all bookings. The API keys of a
    new operator, made for their own bookings, are revoked. Locks the user, the bookings, then the
    endpoints.

    Raises NotFound, and RuleBroken `own_role` for the operator's own account, `role_is_fixed` to or
    from the role of a staff member, to which a profile and bookings belong, or `open_bookings`
    for a customer with open bookings: an operator has no side in a booking.
    """
    if user_id == actor_id:
        raise RuleBroken("own_role", "Nobody can change their own role")
    now = ports.clock.wall()

    async def unit(tx: Transaction) -> User:
        held = await tx.accounts.lock_user(user_id)
        if held is None or held.erased_at is not None:
            raise NotFound("User")
        if Role.STAFF in (held.role, role):
            raise RuleBroken("role_is_fixed", "A staff member keeps the role")
        changed = evolve(held, role=role)
        if changed != held:
            if role is Role.ADMIN:
                bookings = await tx.personal_data.lock_bookings_of(user_id)
                if any(map(has_open_obligations, bookings)):
                    raise RuleBroken(
                        "open_bookings", "Bookings are open, or money is owed for them"
                    )
            await tx.accounts.save_user(changed)
            await tx.accounts.end_sessions_of(user_id)
            if role is Role.ADMIN:
                await _revoke_keys_of(tx.accounts, user_id, now)
            await delete_endpoints_of(tx.webhooks, user_id, now)
        return changed

    return await ports.store.run_transaction(unit)


async def _revoke_keys_of(accounts: AccountsWritePort, owner_id: int, now: datetime) -> None:
    for each in await accounts.api_keys_of(owner_id):
        if each.is_active(now):
            await accounts.revoke_api_key(each.id, now)


async def delete_endpoints_of(webhooks: WebhooksWritePort, owner_id: int, now: datetime) -> None:
    """Delete all endpoints of a user. Locks the endpoints."""
    for each in await webhooks.endpoints_of(owner_id):
        if (endpoint := await webhooks.lock_endpoint(each.id)) is not None:
            await webhooks.cancel_deliveries(endpoint.id, now)
            await webhooks.save_endpoints([endpoint.delete(now)])
