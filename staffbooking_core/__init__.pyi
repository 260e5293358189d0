"""The promised names of the core for type checkers; `__init__.py` imports them on first use."""

from staffbooking_core import (
    bounds as bounds,
    domain as domain,
    errors as errors,
    inputs as inputs,
    operator_inputs as operator_inputs,
    policy as policy,
    ports as ports,
    representations as representations,
    request_id as request_id,
    usecases as usecases,
    validation as validation,
    value_checks as value_checks,
    webhook_receiver as webhook_receiver,
)
from staffbooking_core.domain.accounts.api_keys import (
    ApiKey as ApiKey,
    Permission as Permission,
)
from staffbooking_core.domain.accounts.audit import (
    AuditEntry as AuditEntry,
    AuditSubject as AuditSubject,
    NewAuditEntry as NewAuditEntry,
    Operator as Operator,
)
from staffbooking_core.domain.accounts.devices import (
    SignInOrigin as SignInOrigin,
)
from staffbooking_core.domain.accounts.users import (
    AccountState as AccountState,
    Actor as Actor,
    Language as Language,
    Role as Role,
    Session as Session,
    Subscription as Subscription,
    Theme as Theme,
    User as User,
)
from staffbooking_core.domain.bookings.alerts import (
    Alert as Alert,
    StoredAlert as StoredAlert,
)
from staffbooking_core.domain.bookings.booking import (
    Booking as Booking,
    DueTimer as DueTimer,
    PaymentIntent as PaymentIntent,
    PaymentStatus as PaymentStatus,
    PayoutStatus as PayoutStatus,
    TimelineEntry as TimelineEntry,
)
from staffbooking_core.domain.bookings.cancellation import (
    RefundTier as RefundTier,
)
from staffbooking_core.domain.bookings.disputes import (
    Dispute as Dispute,
    DisputeFile as DisputeFile,
    DisputeFileKind as DisputeFileKind,
    DisputeOutcome as DisputeOutcome,
    DisputeResolution as DisputeResolution,
    DisputeStatement as DisputeStatement,
    DisputeStatus as DisputeStatus,
    NewDisputeStatement as NewDisputeStatement,
)
from staffbooking_core.domain.bookings.earnings import (
    Earning as Earning,
    EarningsMonth as EarningsMonth,
    EarningState as EarningState,
    NextPayout as NextPayout,
)
from staffbooking_core.domain.bookings.guidance import (
    Deadline as Deadline,
    DeadlineKind as DeadlineKind,
    Guidance as Guidance,
    NextAction as NextAction,
    Situation as Situation,
)
from staffbooking_core.domain.bookings.lifecycle import (
    BookingStatus as BookingStatus,
    EventName as EventName,
    Party as Party,
    TimerKind as TimerKind,
    Trigger as Trigger,
)
from staffbooking_core.domain.bookings.refunds import (
    Refund as Refund,
    RefundReason as RefundReason,
)
from staffbooking_core.domain.companions.availability import (
    Calendar as Calendar,
    DateOverride as DateOverride,
    Interval as Interval,
    Slot as Slot,
    WeeklySlot as WeeklySlot,
)
from staffbooking_core.domain.companions.booking_limits import (
    BookingLimits as BookingLimits,
    DateBounds as DateBounds,
)
from staffbooking_core.domain.companions.calendar_files import (
    CalendarFile as CalendarFile,
    SkippedEvent as SkippedEvent,
)
from staffbooking_core.domain.companions.calendar_subscriptions import (
    CalendarReadFault as CalendarReadFault,
    CalendarSubscription as CalendarSubscription,
    CalendarVersion as CalendarVersion,
)
from staffbooking_core.domain.companions.companion import (
    Approval as Approval,
    Badge as Badge,
    Companion as Companion,
    CompanionQuery as CompanionQuery,
    Tier as Tier,
)
from staffbooking_core.domain.companions.portfolio import (
    Image as Image,
    ImageKind as ImageKind,
    NewPortfolioItem as NewPortfolioItem,
    PortfolioItem as PortfolioItem,
    PortfolioItemStatus as PortfolioItemStatus,
)
from staffbooking_core.domain.companions.reviews import (
    NewReview as NewReview,
    RatingTotals as RatingTotals,
    Review as Review,
)
from staffbooking_core.domain.companions.shifts import (
    Shift as Shift,
)
from staffbooking_core.domain.messaging.conversations import (
    ContentFindings as ContentFindings,
    Conversation as Conversation,
    ConversationKind as ConversationKind,
    ConversationMember as ConversationMember,
    ConversationOverview as ConversationOverview,
    Message as Message,
    NewMessage as NewMessage,
)
from staffbooking_core.domain.notifications.inquiries import (
    Inquiry as Inquiry,
    NewInquiry as NewInquiry,
)
from staffbooking_core.domain.notifications.notifications import (
    Email as Email,
    UndeliverableEmail as UndeliverableEmail,
)
from staffbooking_core.domain.payments.ledger import (
    Account as Account,
    Leg as Leg,
    MovementKind as MovementKind,
    Posting as Posting,
)
from staffbooking_core.domain.payments.operations import (
    Operation as Operation,
    OperationOrder as OperationOrder,
    OperationStatus as OperationStatus,
    SettlementStatus as SettlementStatus,
)
from staffbooking_core.domain.payments.payees import (
    OnboardingLink as OnboardingLink,
    OpenPayee as OpenPayee,
    Payee as Payee,
    PayeeState as PayeeState,
    PayeeStatus as PayeeStatus,
)
from staffbooking_core.domain.payments.processor import (
    BadEventSignature as BadEventSignature,
    Chargeback as Chargeback,
    ChargebackStatus as ChargebackStatus,
    Checkout as Checkout,
    CheckoutStatus as CheckoutStatus,
    CloseCheckout as CloseCheckout,
    IntentRefs as IntentRefs,
    OpenCheckout as OpenCheckout,
    OperationKey as OperationKey,
    OperationKeyReused as OperationKeyReused,
    OperationKind as OperationKind,
    OutcomeUnknown as OutcomeUnknown,
    Payment as Payment,
    PayOut as PayOut,
    PayoutState as PayoutState,
    ProcessorBusy as ProcessorBusy,
    ProcessorError as ProcessorError,
    ProcessorEvent as ProcessorEvent,
    ProcessorFee as ProcessorFee,
    ProcessorMisconfigured as ProcessorMisconfigured,
    ProcessorRefused as ProcessorRefused,
    RefundPayment as RefundPayment,
    RefundState as RefundState,
    RefundStatus as RefundStatus,
    RefusalCode as RefusalCode,
    ReversalState as ReversalState,
    ReversePayout as ReversePayout,
    Snapshot as Snapshot,
)
from staffbooking_core.domain.reconciliation.statement import (
    CashPostings as CashPostings,
    Movement as Movement,
)
from staffbooking_core.domain.shared.money import (
    Currency as Currency,
)
from staffbooking_core.domain.shared.rate_limits import (
    RateLimit as RateLimit,
    RateLimitDecision as RateLimitDecision,
    RateLimitExceeded as RateLimitExceeded,
    RateLimits as RateLimits,
)
from staffbooking_core.domain.webhooks.deliveries import (
    AttemptOutcome as AttemptOutcome,
    Delivery as Delivery,
    DeliveryAttempt as DeliveryAttempt,
    DeliveryFailure as DeliveryFailure,
    DeliveryGroup as DeliveryGroup,
    DeliveryStatus as DeliveryStatus,
    EndpointSecrets as EndpointSecrets,
    EndpointSubscription as EndpointSubscription,
    NewDelivery as NewDelivery,
    PublishedEvent as PublishedEvent,
    WebhookEndpoint as WebhookEndpoint,
)
from staffbooking_core.errors import (
    ClockWrong as ClockWrong,
    CompanionUnavailable as CompanionUnavailable,
    Conflict as Conflict,
    ConstraintViolated as ConstraintViolated,
    FieldError as FieldError,
    FilesUnavailable as FilesUnavailable,
    Forbidden as Forbidden,
    InvalidField as InvalidField,
    InvalidInput as InvalidInput,
    MissingField as MissingField,
    NotFound as NotFound,
    NotificationsGivenUp as NotificationsGivenUp,
    ProcessorUnavailable as ProcessorUnavailable,
    RuleBroken as RuleBroken,
    SealBroken as SealBroken,
    StaffbookingError as StaffbookingError,
    StoreUnavailable as StoreUnavailable,
    Unauthenticated as Unauthenticated,
    VersionMismatch as VersionMismatch,
)
from staffbooking_core.policy import (
    Policy as Policy,
)
from staffbooking_core.ports import (
    Admission as Admission,
    CalendarFetcher as CalendarFetcher,
    Calendars as Calendars,
    Clock as Clock,
    ContentFilter as ContentFilter,
    FileStorage as FileStorage,
    Hasher as Hasher,
    Hints as Hints,
    IdGenerator as IdGenerator,
    ImageProcessor as ImageProcessor,
    Notifier as Notifier,
    PaymentProcessor as PaymentProcessor,
    Ports as Ports,
    ProcessedImage as ProcessedImage,
    PubSub as PubSub,
    SandboxProcessor as SandboxProcessor,
    Store as Store,
    Subscriber as Subscriber,
    Vault as Vault,
    WebhookSender as WebhookSender,
)
from staffbooking_core.representations.errors import (
    error_response as error_response,
)
from staffbooking_core.usecases.due_work import (
    run_all_due as run_all_due,
)

__version__: str
