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
    request_context as request_context,
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
)
from staffbooking_core.domain.accounts.devices import (
    SignInOrigin as SignInOrigin,
)
from staffbooking_core.domain.accounts.users import (
    Actor as Actor,
    Role as Role,
    Session as Session,
    Subscription as Subscription,
    User as User,
)
from staffbooking_core.domain.bookings.booking import (
    Booking as Booking,
    PayoutStatus as PayoutStatus,
)
from staffbooking_core.domain.bookings.disputes import (
    DisputeFile as DisputeFile,
    DisputeStatement as DisputeStatement,
)
from staffbooking_core.domain.bookings.lifecycle import (
    BookingStatus as BookingStatus,
    EventName as EventName,
    Party as Party,
    Trigger as Trigger,
)
from staffbooking_core.domain.companions.availability import (
    Calendar as Calendar,
    DateOverride as DateOverride,
    Interval as Interval,
    WeeklySlot as WeeklySlot,
)
from staffbooking_core.domain.companions.calendar_subscriptions import (
    CalendarSubscription as CalendarSubscription,
)
from staffbooking_core.domain.companions.companion import (
    Approval as Approval,
    Companion as Companion,
    CompanionQuery as CompanionQuery,
)
from staffbooking_core.domain.companions.portfolio import (
    Image as Image,
    ImageKind as ImageKind,
    PortfolioItem as PortfolioItem,
    PortfolioItemStatus as PortfolioItemStatus,
)
from staffbooking_core.domain.companions.reviews import (
    RatingTotals as RatingTotals,
    Review as Review,
)
from staffbooking_core.domain.messaging.conversations import (
    ContentFindings as ContentFindings,
    Conversation as Conversation,
    ConversationOverview as ConversationOverview,
    Message as Message,
)
from staffbooking_core.domain.notifications.inquiries import (
    Inquiry as Inquiry,
)
from staffbooking_core.domain.notifications.notifications import (
    Email as Email,
    UndeliverableEmail as UndeliverableEmail,
)
from staffbooking_core.domain.payments.payees import (
    OnboardingLink as OnboardingLink,
    OpenPayee as OpenPayee,
    Payee as Payee,
    PayeeState as PayeeState,
)
from staffbooking_core.domain.payments.processor import (
    BadEventSignature as BadEventSignature,
    Busy as Busy,
    Chargeback as Chargeback,
    ChargebackStatus as ChargebackStatus,
    Checkout as Checkout,
    CheckoutStatus as CheckoutStatus,
    CloseCheckout as CloseCheckout,
    IntentRefs as IntentRefs,
    OpenCheckout as OpenCheckout,
    Operation as Operation,
    OperationKey as OperationKey,
    OperationKeyReused as OperationKeyReused,
    OperationKind as OperationKind,
    OperationOrder as OperationOrder,
    OperationStatus as OperationStatus,
    Payment as Payment,
    PayOut as PayOut,
    PayoutState as PayoutState,
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
    SettlementStatus as SettlementStatus,
    Snapshot as Snapshot,
    Unknown as Unknown,
)
from staffbooking_core.domain.reconciliation.statement import (
    Movement as Movement,
)
from staffbooking_core.domain.shared.money import (
    Currency as Currency,
)
from staffbooking_core.domain.shared.rate_limits import (
    RateLimit as RateLimit,
    RateLimitDecision as RateLimitDecision,
    RateLimitExceeded as RateLimitExceeded,
)
from staffbooking_core.domain.webhooks.deliveries import (
    AttemptOutcome as AttemptOutcome,
    Delivery as Delivery,
    DeliveryAttempt as DeliveryAttempt,
    DeliveryFailure as DeliveryFailure,
    DeliveryStatus as DeliveryStatus,
    WebhookEndpoint as WebhookEndpoint,
)
from staffbooking_core.errors import (
    ClockWrong as ClockWrong,
    CompanionUnavailable as CompanionUnavailable,
    Conflict as Conflict,
    ConstraintViolated as ConstraintViolated,
    FieldError as FieldError,
    Forbidden as Forbidden,
    InvalidField as InvalidField,
    InvalidInput as InvalidInput,
    MissingField as MissingField,
    NotFound as NotFound,
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
from staffbooking_core.representations.errors import error_response as error_response
from staffbooking_core.usecases.due_work import (
    run_all_due as run_all_due,
)

__version__: str
