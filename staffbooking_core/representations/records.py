"""The wire's view of things: names and shapes of the contract, as plain dictionaries.

Money becomes a `Decimal` of the currency's exact decimals and times become text here, so
that every runner, event and stored answer says the same. Bytes are made elsewhere, by
the one codec.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from staffbooking_core.domain.accounts.api_keys import ApiKey
from staffbooking_core.domain.accounts.users import Session, User, session_public_id
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.companions.availability import Calendar, Slot, format_hhmm
from staffbooking_core.domain.companions.companion import Companion, missing_fields
from staffbooking_core.domain.companions.portfolio import PortfolioItem, PortfolioItemStatus
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.domain.messaging.conversations import (
    ConversationOverview,
    Message,
    conversation_title,
)
from staffbooking_core.domain.notifications.inquiries import Inquiry
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.domain.webhooks.deliveries import (
    WEBHOOK_EVENTS,
    Delivery,
    DeliveryAttempt,
    DeliveryStatus,
    WebhookEndpoint,
)

Record = dict[str, Any]


def format_instant(at: datetime | None) -> str | None:
    """An instant as it stands on the wire: ISO 8601 UTC with Z, microseconds if it has any."""
    if at is None:
        return None
    return at.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def user_record(user: User) -> Record:
    """CONTRACT 2."""
    return {
        "id": user.id,
        "email": user.email,
        "first_name": user.first_name,
        "last_name": user.last_name,
        "role": user.role,
        "subscription": user.subscription,
        "subscription_expires_at": format_instant(user.subscription_expires_at),
        "created_at": format_instant(user.created_at),
        "email_verified": user.email_verified_at is not None,
    }


def session_record(session: Session, current: Session) -> Record:
    """A session as its user sees it from one of them."""
    return {
        "id": session_public_id(session.digest),
        "created_at": format_instant(session.created_at),
        "last_seen_at": format_instant(session.seen_at),
        "current": session.digest == current.digest,
    }


def inquiry_record(inquiry: Inquiry) -> Record:
    """As the operators see it."""
    return {
        "id": inquiry.id,
        "name": inquiry.name,
        "email": inquiry.email,
        "subject": inquiry.subject,
        "message": inquiry.message,
        "created_at": format_instant(inquiry.created_at),
    }


def api_key_record(key: ApiKey) -> Record:
    """CONTRACT 2: never the key itself."""
    return {
        "id": key.id,
        "name": key.name,
        "masked_key": key.masked_key,
        "permissions": sorted(key.permissions, reverse=True),
        "created_at": format_instant(key.created_at),
        "last_used_at": format_instant(key.last_used_at),
        "expires_at": format_instant(key.expires_at),
        "revoked_at": format_instant(key.revoked_at),
    }


def companion_summary(companion: Companion, currency: Currency) -> Record:
    """An element of a search result (SPECIFICATION 2.1), by the first name alone."""
    daily = companion.daily_rate
    return {
        "id": companion.id,
        "first_name": companion.first_name,
        "profile_photo": companion.profile_photo,
        "tagline": companion.tagline,
        "hourly_rate": currency.to_decimal(companion.hourly_rate),
        "daily_rate": None if daily is None else currency.to_decimal(daily),
        "location_city": companion.location_city,
        "location_country": companion.location_country,
        "service_types": ",".join(companion.service_types),
        "rating_avg": companion.rating_avg,
        "total_reviews": companion.total_reviews,
        "tier": companion.tier,
        "badges": list(companion.badges),
    }


def companion_detail(
    companion: Companion,
    currency: Currency,
    reviews: Sequence[Review] = (),
    portfolio: Sequence[PortfolioItem] = (),
) -> Record:
    """The full profile, with its newest reviews and approved portfolio (CONTRACT 3)."""
    return {
        "companion": {
            **_full_profile(companion, currency),
            "reviews": [review_record(review) for review in reviews],
            "portfolio": [
                portfolio_record(item)
                for item in portfolio
                if item.status is PortfolioItemStatus.APPROVED
            ],
        }
    }


def _full_profile(companion: Companion, currency: Currency) -> Record:
    """All that a companion says of themself."""
    return {
        **companion_summary(companion, currency),
        "bio": companion.bio,
        "languages": list(companion.languages),
        "years_experience": companion.years_experience,
        "timezone": companion.calendar.timezone,
        "currency": currency.code,
        "member_since": format_instant(companion.member_since),
    }


def profile_record(companion: Companion, currency: Currency) -> Record:
    """CONTRACT 3, as the staff member sees it: a list of services, no rate that was never said,
    and how it stands."""
    record = _full_profile(companion, currency)
    return {
        **record,
        "last_name": companion.last_name,
        "hourly_rate": record["hourly_rate"] or None,
        "service_types": list(companion.service_types),
        "status": companion.approval,
        "active": companion.active,
        "missing": missing_fields(companion),
    }


def availability_record(calendar: Calendar) -> Record:
    """CONTRACT 3: the hours as the staff member set them."""
    return {
        "timezone": calendar.timezone,
        "weekly": [
            {"weekday": weekly.weekday, **slot_record(weekly.slot)} for weekly in calendar.weekly
        ],
        "overrides": [
            {
                "date": override.date.isoformat(),
                "slots": [slot_record(slot) for slot in override.slots],
            }
            for override in calendar.overrides
        ],
    }


def slot_record(slot: Slot) -> Record:
    """CONTRACT 3."""
    return {"start": format_hhmm(slot.start), "end": format_hhmm(slot.end)}


def portfolio_record(item: PortfolioItem) -> Record:
    """CONTRACT 3, as others see it."""
    return {
        "id": item.id,
        "title": item.title,
        "image": item.image,
        "description": item.description,
        "created_at": format_instant(item.created_at),
    }


def own_portfolio_record(item: PortfolioItem) -> Record:
    """CONTRACT 3, as its owner sees it."""
    return {**portfolio_record(item), "status": item.status}


def booking_record(booking: Booking, viewer: Party | None) -> Record:
    """The record of CONTRACT 4 as a party may read it.

    `viewer` is the side it is made for. The platform's fee and the payout are for the
    staff member and admins; None makes the form that events carry, the same for everybody.
    """
    money = Currency(booking.currency).to_decimal
    record: Record = {
        "id": booking.id,
        "booking_code": booking.code,
        "status": booking.status,
        "companion_id": booking.companion_id,
        "companion_name": booking.companion_name,
        "customer_id": booking.customer_id,
        "customer_name": booking.customer_name,
        "booked_by": booking.booked_by,
        "service_type": booking.service_type,
        "location": booking.location,
        "event_date": booking.event_date.isoformat(),
        "start_time": booking.start_time,
        "duration_hours": booking.duration_hours,
        "timezone": booking.timezone,
        "starts_at": format_instant(booking.starts_at),
        "ends_at": format_instant(booking.ends_at),
        "currency": booking.currency,
        "price": money(booking.price),
        "insurance_premium": money(booking.insurance_premium),
        "total_amount": money(booking.total_amount),
        "refunded_amount": money(booking.refunded_amount),
        "cancellation_insurance": booking.cancellation_insurance,
        "event_ref": booking.event_ref,
        "priority": booking.priority,
        "checked_in_at": format_instant(booking.checked_in_at),
        "accepted_at": format_instant(booking.accepted_at),
        "paid_at": format_instant(booking.paid_at),
        "completed_at": format_instant(booking.completed_at),
        "completed_by": booking.completed_by,
        "cancelled_at": format_instant(booking.cancelled_at),
        "cancelled_by": booking.cancelled_by,
        "cancel_reason": booking.cancel_reason,
        "disputed_at": format_instant(booking.disputed_at),
        "payment_status": booking.payment_status,
        "created_at": format_instant(booking.created_at),
        "version": booking.version,
    }
    if viewer in (Party.STAFF, Party.ADMIN):
        record["platform_fee"] = money(booking.platform_fee)
        record["payout_amount"] = money(booking.payout_amount)
        record["payout_status"] = booking.payout_status
    if viewer is not None:
        record["timeline"] = [
            {
                "at": format_instant(entry.at),
                "from": entry.was,
                "to": entry.to,
                "trigger": entry.trigger,
                "actor": entry.actor,
            }
            for entry in booking.timeline
        ]
    return record


def booking_status_record(booking: Booking) -> Record:
    """What a key of somebody outside the booking may read of it (CONTRACT 4)."""
    return {
        "booking_code": booking.code,
        "status": booking.status,
        "event_date": booking.event_date.isoformat(),
    }


def review_record(review: Review) -> Record:
    """CONTRACT 5."""
    return {
        "id": review.id,
        "booking_id": review.booking_id,
        "reviewer_id": review.reviewer_id,
        "reviewer_name": review.reviewer_name,
        "reviewer_role": review.reviewer_role,
        "reviewee_id": review.reviewee_id,
        "rating": review.rating,
        "comment": review.comment,
        "punctuality": review.punctuality,
        "professionalism": review.professionalism,
        "communication": review.communication,
        "appearance": review.appearance,
        "response": review.response,
        "responded_at": format_instant(review.responded_at),
        "created_at": format_instant(review.created_at),
    }


def message_record(message: Message) -> Record:
    """CONTRACT 6."""
    return {
        "id": message.id,
        "conversation_id": message.conversation_id,
        "sender_id": message.sender_id,
        "sender_name": message.sender_name,
        "content": message.content,
        "created_at": format_instant(message.created_at),
    }


def conversation_record(overview: ConversationOverview, reader_id: int) -> Record:
    """CONTRACT 6, for one of its members."""
    conversation, last = overview.conversation, overview.last_message
    return {
        "id": conversation.id,
        "type": conversation.kind,
        "title": conversation_title(conversation, reader_id),
        "booking_code": overview.booking_code,
        "participants": [
            {
                "user_id": member.user_id,
                "name": member.name,
                "online": member.user_id in overview.online,
            }
            for member in conversation.participants
        ],
        "last_message": None if last is None else message_record(last),
        "unread_count": overview.unread,
        "updated_at": format_instant(conversation.updated_at),
    }


def webhook_record(endpoint: WebhookEndpoint) -> Record:
    """CONTRACT 7: never its secret."""
    return {
        "id": endpoint.id,
        "url": endpoint.url,
        "events": [event for event in WEBHOOK_EVENTS if event in endpoint.events],
        "description": endpoint.description,
        "active": endpoint.active,
        "consecutive_failures": endpoint.consecutive_failures,
        "disabled_at": format_instant(endpoint.disabled_at),
        "disabled_reason": endpoint.disabled_reason,
        "created_at": format_instant(endpoint.created_at),
    }


def attempt_record(attempt: DeliveryAttempt) -> Record:
    """CONTRACT 7."""
    return {
        "number": attempt.number,
        "at": format_instant(attempt.at),
        "response_status": attempt.response_status,
        "duration_ms": attempt.duration_ms,
        "error": attempt.error,
    }


def delivery_record(delivery: Delivery, attempts: Iterable[DeliveryAttempt]) -> Record:
    """CONTRACT 7. While it is held nobody can say when it will be tried."""
    pending = delivery.status is DeliveryStatus.PENDING
    return {
        "id": delivery.id,
        "event_id": delivery.event_id,
        "event": delivery.event,
        "status": delivery.status,
        "attempts": [attempt_record(attempt) for attempt in attempts],
        "next_attempt_at": format_instant(delivery.next_at) if pending else None,
        "created_at": format_instant(delivery.created_at),
    }


def payment_record(booking: Booking) -> Record:
    """The payment inside `payment.completed` (CONTRACT 7)."""
    return {
        "id": booking.id,
        "booking_code": booking.code,
        "amount": Currency(booking.currency).to_decimal(booking.total_amount),
        "currency": booking.currency,
        "paid_at": format_instant(booking.paid_at),
    }
