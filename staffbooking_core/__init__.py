"""The core of staffbooking: the rules of the marketplace, without I/O and without a framework.

Open `Ports` (`staffbooking_adapters` has complete ones) and call the use-cases:

    from staffbooking_core import Actor, Role, run_all_due
    from staffbooking_core.usecases.bookings import actions

    booking = await actions.accept(ports, Actor(user_id=7, role=Role.STAFF), booking_id)
    await run_all_due(ports)

The values, errors and ports here are promised (docs/stability.md). A module of the core promises
the names in its `__all__`, and nothing without one; docs/reference lists them all.

All of it is imported on first use: the kit for webhooks and the HTTP client need nothing else.
"""

import warnings
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_ROOMS = (
    "bounds",
    "domain",
    "errors",
    "inputs",
    "operator_inputs",
    "policy",
    "ports",
    "representations",
    "request_id",
    "usecases",
    "validation",
    "value_checks",
    "webhook_receiver",
)

_NAMES_BY_MODULE = {
    "domain.accounts.api_keys": "ApiKey Permission",
    "domain.accounts.audit": "AuditEntry AuditSubject NewAuditEntry Operator",
    "domain.accounts.devices": "SignInOrigin",
    "domain.accounts.users": "AccountState Actor Language Role Session Subscription Theme User",
    "domain.bookings.alerts": "Alert StoredAlert",
    "domain.bookings.booking": (
        "Booking DueTimer PaymentIntent PaymentStatus PayoutStatus TimelineEntry"
    ),
    "domain.bookings.cancellation": "RefundTier",
    "domain.bookings.disputes": (
        "Dispute DisputeFile DisputeFileKind DisputeOutcome DisputeResolution DisputeStatement "
        "DisputeStatus NewDisputeStatement"
    ),
    "domain.bookings.earnings": "Earning EarningState EarningsMonth NextPayout",
    "domain.bookings.guidance": "Deadline DeadlineKind Guidance NextAction Situation",
    "domain.bookings.lifecycle": "BookingStatus EventName Party TimerKind Trigger",
    "domain.bookings.refunds": "Refund RefundReason",
    "domain.companions.availability": "Calendar DateOverride Interval Slot WeeklySlot",
    "domain.companions.booking_limits": "BookingLimits DateBounds",
    "domain.companions.calendar_files": "CalendarFile SkippedEvent",
    "domain.companions.calendar_subscriptions": (
        "CalendarReadFault CalendarSubscription CalendarVersion"
    ),
    "domain.companions.companion": "Approval Badge Companion CompanionQuery Tier",
    "domain.companions.portfolio": (
        "Image ImageKind NewPortfolioItem PortfolioItem PortfolioItemStatus"
    ),
    "domain.companions.reviews": "NewReview RatingTotals Review",
    "domain.companions.shifts": "Shift",
    "domain.messaging.conversations": (
        "ContentFindings Conversation ConversationKind ConversationMember ConversationOverview "
        "Message NewMessage"
    ),
    "domain.notifications.inquiries": "Inquiry NewInquiry",
    "domain.notifications.notifications": "Email UndeliverableEmail",
    "domain.payments.ledger": "Account Leg MovementKind Posting",
    "domain.payments.operations": "Operation OperationOrder OperationStatus SettlementStatus",
    "domain.payments.payees": "OnboardingLink OpenPayee Payee PayeeState PayeeStatus",
    "domain.payments.processor": (
        "BadEventSignature Chargeback ChargebackStatus Checkout CheckoutStatus CloseCheckout "
        "IntentRefs OpenCheckout OperationKey OperationKeyReused OperationKind OutcomeUnknown "
        "PayOut Payment PayoutState ProcessorBusy ProcessorError ProcessorEvent ProcessorFee "
        "ProcessorMisconfigured ProcessorRefused RefundPayment RefundState RefundStatus "
        "RefusalCode ReversalState ReversePayout Snapshot"
    ),
    "domain.reconciliation.statement": "CashPostings Movement",
    "domain.shared.money": "Currency",
    "domain.shared.rate_limits": "RateLimit RateLimitDecision RateLimitExceeded RateLimits",
    "domain.webhooks.deliveries": (
        "AttemptOutcome Delivery DeliveryAttempt DeliveryFailure DeliveryGroup DeliveryStatus "
        "EndpointSecrets EndpointSubscription NewDelivery PublishedEvent WebhookEndpoint"
    ),
    "errors": (
        "ClockWrong CompanionUnavailable Conflict ConstraintViolated FieldError "
        "FilesUnavailable Forbidden InvalidField InvalidInput MissingField NotFound "
        "NotificationsGivenUp ProcessorUnavailable RuleBroken SealBroken StaffbookingError "
        "StoreUnavailable Unauthenticated VersionMismatch"
    ),
    "policy": "Policy",
    "ports": (
        "Admission CalendarFetcher Calendars Clock ContentFilter FileStorage Hasher Hints "
        "IdGenerator ImageProcessor Notifier PaymentProcessor Ports ProcessedImage PubSub "
        "SandboxProcessor Store Subscriber Vault WebhookSender"
    ),
    "representations.errors": "error_response",
    "usecases.due_work": "run_all_due",
}
"""The promised names by the module that defines them."""

_DEPRECATED: dict[str, str] = {}
"""Names that will be removed: the promised name that replaces each."""

_MODULE_BY_NAME = {
    name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()
}

__all__ = ["__version__", *_ROOMS, *_MODULE_BY_NAME]


def __getattr__(name: str) -> Any:
    if name in _DEPRECATED:
        message = f"staffbooking_core.{name} is deprecated: use {_DEPRECATED[name]}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        name = _DEPRECATED[name]
    if name in _MODULE_BY_NAME:
        return getattr(import_module(f"{__name__}.{_MODULE_BY_NAME[name]}"), name)
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
