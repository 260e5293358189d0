"""How complete a staff member's profile is, and what a new staff member does first."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.companions.companion import Approval, Companion, missing_fields


class ProfilePart(StrEnum):
    """The parts of a profile that customers look at, the most useful first."""

    SERVICES = "services"
    RATE = "rate"
    PLACE = "place"
    PHOTO = "photo"
    TAGLINE = "tagline"
    BIO = "bio"
    HOURS = "hours"
    LANGUAGES = "languages"
    EXPERIENCE = "experience"
    PORTFOLIO = "portfolio"


class FirstStep(StrEnum):
    """What makes a new staff member bookable, in the order in which it is done."""

    ADDRESS = "address"
    PROFILE = "profile"
    HOURS = "hours"
    PAYOUT_ACCOUNT = "payout_account"
    APPROVAL = "approval"
    """An operator does it, once the profile has what it needs."""


@frozen
class StepState:
    """A first step, and whether it is done. `is_waiting`: others do it."""

    step: FirstStep
    is_done: bool
    is_waiting: bool = False


def missing_parts(companion: Companion, portfolio_items: int) -> list[ProfilePart]:
    """The parts of the profile that are empty; it has this number of portfolio items."""
    calendar = companion.calendar
    filled = {
        ProfilePart.SERVICES: companion.service_types,
        ProfilePart.RATE: companion.hourly_rate,
        ProfilePart.PLACE: companion.location_city and companion.location_country,
        ProfilePart.PHOTO: companion.profile_photo,
        ProfilePart.TAGLINE: companion.tagline,
        ProfilePart.BIO: companion.bio,
        ProfilePart.HOURS: calendar.weekly or calendar.overrides,
        ProfilePart.LANGUAGES: companion.languages,
        ProfilePart.EXPERIENCE: companion.years_experience is not None,
        ProfilePart.PORTFOLIO: portfolio_items,
    }
    return [part for part in ProfilePart if not filled[part]]


def first_steps(
    user: User, companion: Companion, *, has_payout_account: bool
) -> tuple[StepState, ...]:
    """The first steps of a staff member with their states."""
    calendar = companion.calendar
    is_complete = not missing_fields(companion)
    is_approved = companion.approval is not Approval.PENDING
    return (
        StepState(FirstStep.ADDRESS, user.email_verified_at is not None),
        StepState(FirstStep.PROFILE, is_complete),
        StepState(FirstStep.HOURS, bool(calendar.weekly or calendar.overrides)),
        StepState(FirstStep.PAYOUT_ACCOUNT, has_payout_account),
        StepState(FirstStep.APPROVAL, is_approved, is_waiting=is_complete and not is_approved),
    )
