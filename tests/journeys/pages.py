"""All pages in all states, by role: the table of the audit and of the screenshots.

A new page, or a new state of one, is a new row here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, cast

from attrs import frozen
from playwright.sync_api import Page

from tests.support.ics import make_ics_calendar, make_ics_hour

if TYPE_CHECKING:
    from playwright.sync_api import FilePayload

Role = Literal["anybody", "newcomer", "beginner", "customer", "staff", "enterprise", "admin"]


@frozen
class PageState:
    """A page as one role sees it."""

    name: str
    role: Role
    path: str
    """Names in braces are keys of a marketplace's `names`."""
    prepare: Callable[[Page], None] | None = None
    """What the person does on the page to bring it into the state."""
    status: int = 200
    """The status of the page's own address."""

    @property
    def title(self) -> str:
        return f"{self.name}, {self.role}"


def _submit_empty(name: str) -> Callable[[Page], None]:
    """Submit a form by its button, a pattern, without the browser's own checks."""

    def prepare(page: Page) -> None:
        button = page.get_by_role("main").get_by_role("button", name=re.compile(name))
        button.evaluate("button => { button.form.noValidate = true }")
        button.click()
        page.wait_for_load_state()

    return prepare


def _sign_in_wrongly(page: Page) -> None:
    page.get_by_label("E-mail").fill("nobody@example.test")
    page.get_by_label("Password").fill("not-the-password")
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").wait_for()


_A_WEEK_WITH_A_NIGHT = (
    "timezone=Europe/Lisbon&when=weekly&from-0-0=09:00&to-0-0=12:00&from-0-1=13:00&to-0-1=18:00"
    "&from-4-0=22:00&to-4-0=02:00&from-6-0=22:00&to-6-0=02:00"
)
"""A draft of weekly hours in an address."""


def _clear_day(page: Page) -> None:
    page.get_by_label("From day").fill("")
    _submit_empty("^Save these days$")(page)


_SIGNED_OUT: tuple[PageState, ...] = (
    PageState("home", "anybody", "/"),
    PageState("sign in", "anybody", "/account/sign-in"),
    PageState("sign in refused", "anybody", "/account/sign-in", _sign_in_wrongly),
    PageState("register", "anybody", "/account/register"),
    PageState(
        "register refused",
        "anybody",
        "/account/register",
        _submit_empty("^Create the account$"),
    ),
    PageState("forgotten password", "anybody", "/account/forgot-password"),
    PageState("new password, false link", "anybody", "/account/reset-password/false", status=400),
    PageState("confirmation, false link", "anybody", "/account/verify-email/false", status=400),
    PageState(
        "no more mails, false link", "anybody", "/notifications/unsubscribe/false", status=404
    ),
    PageState("booking", "anybody", "/bookings/{paid}/return"),
    PageState("payment", "anybody", "/sandbox/checkout/{checkout}"),
    PageState("payment done", "anybody", "/sandbox/checkout/{paid_checkout}"),
    PageState("onboarding", "anybody", "/sandbox/payees/{payee}"),
    PageState("payout account", "anybody", "/staff/payouts"),
    PageState("how it works", "anybody", "/how-it-works"),
    PageState("terms", "anybody", "/terms"),
    PageState("contact", "anybody", "/contact-us"),
    PageState("contact refused", "anybody", "/contact-us", _submit_empty("^Send")),
    PageState("search", "anybody", "/find"),
    PageState("search results", "anybody", "/find?location=lisbon"),
    PageState("profile", "anybody", "/companions/{staff}"),
    PageState("documentation", "anybody", "/docs"),
    PageState("nothing there", "anybody", "/nothing/there", status=404),
)

_OF_EVERY_ACCOUNT: tuple[PageState, ...] = tuple(
    PageState(name, role, path)
    for role in ("customer", "staff", "admin")
    for name, path in (
        ("home", "/"),
        ("history", "/history"),
        ("account", "/account"),
        ("account, sessions", "/account/sessions"),
        ("account, notifications", "/account/mails"),
        ("account, language and look", "/account/preferences"),
        ("account, own data", "/account/data"),
        ("confirmation of the address", "/account/verify-email"),
        ("password", "/account/password"),
        ("erasure", "/account/erasure"),
        ("messages", "/conversations"),
    )
)

_OF_CUSTOMERS: tuple[PageState, ...] = (
    PageState("home, empty", "newcomer", "/"),
    PageState("messages, empty", "newcomer", "/conversations"),
    PageState("search", "customer", "/find"),
    PageState("search results", "customer", "/find?location=lisbon"),
    PageState("search results, none", "customer", "/find?location=nowhere"),
    PageState("search refused", "customer", "/find?min_price=much", status=422),
    PageState("profile", "customer", "/companions/{staff}"),
    PageState("request", "customer", "/companions/{staff}/request"),
    PageState(
        "request refused",
        "customer",
        "/companions/{staff}/request",
        _submit_empty("^Send the request$"),
    ),
    PageState("conversation", "customer", "/conversations/with/{staff}"),
    PageState("review", "customer", "/bookings/{completed}/review"),
    PageState("booking of others", "newcomer", "/bookings/{paid}/return", status=404),
)

_OF_STAFF: tuple[PageState, ...] = (
    PageState("profile form", "staff", "/staff/me"),
    PageState("portfolio", "staff", "/staff/showcase"),
    PageState("payouts", "staff", "/staff/payouts"),
    PageState("reviews", "staff", "/staff/reviews"),
    PageState("response to a review", "staff", "/staff/reviews/{review}"),
    PageState("conversation", "staff", "/conversations/{conversation}"),
    PageState("review of the customer", "staff", "/bookings/{completed}/review"),
)

_HOURS: tuple[PageState, ...] = (
    PageState("hours", "staff", "/staff/hours"),
    PageState("hours with a night", "staff", f"/staff/hours?{_A_WEEK_WITH_A_NIGHT}"),
    PageState(
        "hours refused", "staff", "/staff/hours?timezone=x&from-0-0=09:00", _submit_empty("^Save$")
    ),
    PageState("hours of days", "staff", "/staff/hours/dates"),
    PageState("agenda of a later week", "staff", "/?week=2026-12-16"),
    PageState("hours of days refused", "staff", "/staff/hours/dates", _clear_day),
    PageState(
        "hours of days, special", "staff", "/staff/hours/dates?kind=special&first=2030-01-01"
    ),
)


def _choose(label: str) -> Callable[[Page], None]:
    """Open what is folded away under a summary."""

    def prepare(page: Page) -> None:
        page.get_by_role("main").locator("summary", has_text=label).first.click()

    return prepare


_OF_STAFF_PROFILES: tuple[PageState, ...] = (
    PageState("profile form refused", "staff", "/staff/me", _submit_empty("^Upload the photo$")),
    PageState("portfolio refused", "staff", "/staff/showcase", _submit_empty("^Add$")),
    PageState("portfolio, removal", "staff", "/staff/showcase", _choose("Remove")),
    PageState("earnings as a table", "staff", "/staff/payouts", _choose("As a table")),
    PageState("home, first steps", "beginner", "/"),
    PageState("profile form, empty", "beginner", "/staff/me"),
    PageState("portfolio, empty", "beginner", "/staff/showcase"),
    PageState("earnings, none yet", "beginner", "/staff/payouts"),
    PageState("profile preview", "staff", "/staff/me/preview"),
    PageState("earnings of no bookings", "staff", "/staff/payouts?year=2020"),
)


def _make_feed(page: Page) -> None:
    main = page.get_by_role("main")
    if main.get_by_role("button", name="Make a feed").count():
        main.get_by_role("button", name="Make a feed").click()
    else:
        main.locator("summary", has_text="Make a new address").click()
        main.get_by_role("button", name="Replace the address").click()
    page.get_by_text("It is shown this once").wait_for()


def _import_file(page: Page) -> None:
    """Import a file of which some events block no time."""
    day = datetime.now(UTC) + timedelta(days=300)
    events = (
        make_ics_hour(f"{day:%Y%m%d}T190000Z"),
        make_ics_hour(f"{day:%Y%m%d}T210000Z", "TRANSP:TRANSPARENT"),
        make_ics_hour("20240101T090000Z"),
        make_ics_hour("20240102T090000Z"),
    )
    file = {"name": "a.ics", "mimeType": "text/calendar", "buffer": make_ics_calendar(*events)}
    page.get_by_label("Calendar file (.ics)").set_input_files(cast("FilePayload", file))
    page.get_by_role("main").get_by_role("button", name=re.compile("^Import")).click()
    page.get_by_text("The file is imported.").wait_for()


_OF_CALENDARS: tuple[PageState, ...] = (
    PageState("calendars", "staff", "/staff/calendars"),
    PageState(
        "calendars refused", "staff", "/staff/calendars", _submit_empty("^Add the calendar$")
    ),
    PageState("calendars imported", "staff", "/staff/calendars", _import_file),
    PageState("calendars feed", "staff", "/staff/calendars", _make_feed),
)

_OF_OPERATORS: tuple[PageState, ...] = (
    PageState("what waits", "admin", "/admin"),
    PageState("booking paid", "admin", "/bookings/{paid}/return"),
    PageState("booking disputed", "admin", "/bookings/{disputed}/return"),
)


def _replace_key(page: Page) -> None:
    """Replace a key at once: another one with its name is shown."""
    page.get_by_role("link", name="Replace nightly import").click()
    page.get_by_label("Not at all: revoke it now").check()
    page.get_by_role("button", name="Make the new key").click()
    page.get_by_role("heading", name="Your new key").wait_for()


def _make_secret(page: Page) -> None:
    page.get_by_role("button", name=re.compile("^Make (a new|another) secret$")).click()
    page.get_by_role("heading", name="The secret of your webhook").wait_for()


_OF_SUBSCRIBERS: tuple[PageState, ...] = (
    PageState("dashboard", "customer", "/dashboard"),
    PageState("dashboard", "enterprise", "/dashboard"),
    PageState("keys", "enterprise", "/dashboard/keys"),
    PageState("keys refused", "enterprise", "/dashboard/keys", _submit_empty("^Make the key$")),
    PageState("key made", "enterprise", "/dashboard/keys", _replace_key),
    PageState("key to replace", "enterprise", "/dashboard/keys/{api_key}/rotation"),
    PageState("key to revoke", "enterprise", "/dashboard/keys/{api_key}/revocation"),
    PageState("webhooks", "enterprise", "/dashboard/webhooks"),
    PageState("webhook to add", "enterprise", "/dashboard/webhooks/new"),
    PageState(
        "webhook refused",
        "enterprise",
        "/dashboard/webhooks/new",
        _submit_empty("^Add the webhook$"),
    ),
    PageState("webhook", "enterprise", "/dashboard/webhooks/{endpoint}"),
    PageState(
        "webhook, none failed", "enterprise", "/dashboard/webhooks/{endpoint}?state=succeeded"
    ),
    PageState("webhook to change", "enterprise", "/dashboard/webhooks/{endpoint}/settings"),
    PageState("webhook's secret", "enterprise", "/dashboard/webhooks/{endpoint}/secret"),
    PageState(
        "webhook's secret made",
        "enterprise",
        "/dashboard/webhooks/{endpoint}/secret",
        _make_secret,
    ),
    PageState("webhook to delete", "enterprise", "/dashboard/webhooks/{endpoint}/deletion"),
    PageState("delivery", "enterprise", "/dashboard/webhooks/{endpoint}/deliveries/{delivery}"),
    PageState("events", "enterprise", "/dashboard/events"),
    PageState("events, none", "enterprise", "/dashboard/events?event=payout.failed"),
)

_PAGES_OF_BOOKINGS: tuple[PageState, ...] = tuple(
    PageState(name, role, path)
    for role in ("customer", "staff")
    for name, path in (
        ("cancellation", "/bookings/{paid}/cancellation"),
        ("cancellation unpaid", "/bookings/{accepted}/cancellation"),
        ("dispute to open", "/bookings/{running}/problem"),
        ("dispute to answer", "/bookings/{disputed}/problem"),
        ("receipt", "/bookings/{completed}/receipt"),
    )
)

_OF_OPERATORS_OF_PEOPLE: tuple[PageState, ...] = tuple(
    PageState(name, "admin", path)
    for name, path in (
        ("people", "/admin/people"),
        ("people found", "/admin/people?q=da"),
        ("people, nobody", "/admin/people?q=nobody+at+all"),
        ("person, staff member", "/admin/people/{staff}"),
        ("person, customer", "/admin/people/{customer}"),
        ("key of a person", "/admin/people/{enterprise}/keys/{api_key}/revoke"),
        ("person, subscriber", "/admin/people/{enterprise}"),
        ("disabling", "/admin/people/{staff}/disable"),
        ("enabling", "/admin/people/{disabled}/enable"),
        ("person, disabled", "/admin/people/{disabled}"),
        ("subscription", "/admin/people/{customer}/subscription"),
        ("role", "/admin/people/{customer}/role"),
        ("approvals", "/admin/approvals"),
        ("approval of a profile", "/admin/approvals/people/{waiting}"),
        ("approval of a draft", "/admin/approvals/people/{draft}"),
        ("approval of a picture", "/admin/approvals/pictures/{picture}"),
        ("operator's reviews", "/admin/reviews"),
        ("operator's review", "/admin/reviews/{review}"),
        ("inquiries", "/admin/inquiries"),
        ("inquiry", "/admin/inquiries/{inquiry}"),
        ("inquiries answered", "/admin/inquiries?only=answered"),
        ("silent endpoints", "/admin/endpoints"),
        ("webhook endpoint", "/admin/endpoints/{endpoint}"),
    )
)
_REFUSED_BY_OPERATORS: tuple[PageState, ...] = (
    PageState(
        *("disabling refused", "admin", "/admin/people/{staff}/disable"),
        _submit_empty("^Disable the account$"),
    ),
    PageState(
        *("approval refused", "admin", "/admin/approvals/people/{waiting}"),
        _submit_empty("^Approve$"),
    ),
)

BOOKING_STATES = (
    "pending accepted declined taken_back paid cancelled_by_customer cancelled_by_staff "
    "running ended completed reviewed disputed no_show withdrawn"
).split()

_BOOKINGS: tuple[PageState, ...] = tuple(
    PageState(f"booking {state}", role, f"/bookings/{{{state}}}/return")
    for state in BOOKING_STATES
    for role in ("customer", "staff")
)

_OF_OPERATORS_OF_MONEY: tuple[PageState, ...] = (
    PageState("disputes", "admin", "/admin/disputes"),
    PageState("dispute to decide", "admin", "/admin/disputes/{disputed}"),
    PageState("dispute of an absence", "admin", "/admin/disputes/{no_show}"),
    PageState("dispute withdrawn", "admin", "/admin/disputes/{withdrawn}"),
    PageState(
        "dispute decision refused",
        "admin",
        "/admin/disputes/{disputed}/decision?outcome=split",
        status=400,
    ),
    PageState(
        "dispute decision",
        "admin",
        "/admin/disputes/{disputed}/decision?outcome=split&amount=50",
    ),
    PageState(
        "dispute decision without a reason",
        "admin",
        "/admin/disputes/{disputed}/decision?outcome=refund",
        _submit_empty("^Decide for"),
    ),
    PageState("audit", "admin", "/admin/audit"),
    PageState("reconciliation", "admin", "/admin/reconciliation"),
    PageState("audit filtered", "admin", "/admin/audit?subject=refund"),
    PageState("audit refused", "admin", "/admin/audit?subject=all", status=422),
    PageState("money, none failed", "admin", "/admin/money"),
    PageState("money scheduled", "admin", "/admin/money?show=scheduled"),
    PageState("money held", "admin", "/admin/money?show=held"),
    PageState("find a booking", "admin", "/admin/bookings"),
    PageState("find a booking refused", "admin", "/admin/bookings?code=BK", status=422),
    PageState("money of a booking", "admin", "/admin/bookings/{completed}"),
    PageState("money of a disputed booking", "admin", "/admin/bookings/{disputed}"),
    PageState("release of a payout", "admin", "/admin/bookings/{reviewed}/payout/release"),
)

_OF_ACCOUNTS: tuple[PageState, ...] = (
    PageState("saved people", "customer", "/saved"),
    PageState("help", "anybody", "/help"),
)


def _unfold_bar(page: Page) -> None:
    page.get_by_role("region", name="Demo").locator("summary").click()


def _arm_too_often(page: Page) -> None:
    page.get_by_label("How many times").fill("99")
    _submit_empty("^Arm it$")(page)


_OF_TESTERS: tuple[PageState, ...] = (
    PageState("tour", "anybody", "/sandbox/tour"),
    PageState("demo bar unfolded", "customer", "/sandbox/tour", _unfold_bar),
    PageState("clock of the demo", "customer", "/sandbox/clock"),
    PageState("clock of the demo, moved", "staff", "/sandbox/clock?position=0&since=1790000000"),
    PageState(
        "clock of the demo, nothing", "anybody", "/sandbox/clock?position=999999&mail=999999"
    ),
    PageState("mails of the demo", "anybody", "/sandbox/mails"),
    PageState("mails of the demo, none", "anybody", "/sandbox/mails?before=1"),
    PageState("payment faults", "anybody", "/sandbox/faults"),
    PageState("payment faults refused", "anybody", "/sandbox/faults", _arm_too_often),
)

PAGE_STATES = (
    *_OF_TESTERS,
    *_SIGNED_OUT,
    *_OF_EVERY_ACCOUNT,
    *_OF_CUSTOMERS,
    *_OF_STAFF,
    *_HOURS,
    *_OF_STAFF_PROFILES,
    *_OF_CALENDARS,
    *_OF_OPERATORS,
    *_OF_OPERATORS_OF_PEOPLE,
    *_REFUSED_BY_OPERATORS,
    *_OF_SUBSCRIBERS,
    *_PAGES_OF_BOOKINGS,
    *_BOOKINGS,
    *_OF_OPERATORS_OF_MONEY,
    *_OF_ACCOUNTS,
)
