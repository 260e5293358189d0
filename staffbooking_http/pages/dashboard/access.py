"""Access to the subscribers' pages, and what all of them show."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from attrs import frozen
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.users import Subscription, User
from staffbooking_core.errors import NotFound, StaffbookingError
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.accounts.api_keys import check_subscription
from staffbooking_http.api import rate_limits
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.session import (
    PageRequest,
    get_call,
    read_verified_form,
    render,
    render_error,
    require_signed_in,
)

DASHBOARD_PATH = "/dashboard"


class SubscriptionState(StrEnum):
    """What an account may do with keys and webhooks."""

    ACTIVE = "active"
    LAPSED = "lapsed"
    """An enterprise subscription that has ended: all is shown, nothing works."""
    NONE = "none"


@frozen
class Visit:
    """A signed-in visitor of the subscribers' pages."""

    call: Call
    visitor: SignedInUser
    state: SubscriptionState

    @property
    def ports(self) -> Ports:
        """The ports of the call."""
        return self.call.ports

    @property
    def user(self) -> User:
        """The signed-in user."""
        return self.visitor.user

    async def count(self) -> None:
        """Count the sending of a form. Raises RateLimitExceeded."""
        await rate_limits.count_user(self.call, self.user.id)

    def render(self, template: str, **context: Any) -> Template:
        """Render one of the subscribers' pages."""
        return render(f"dashboard/{template}", self.visitor, **self._frame, **context)

    def render_error(self, template: str, error: StaffbookingError, **context: Any) -> Template:
        """Render a page with the faults of its form."""
        return render_error(f"dashboard/{template}", self.visitor, error, **self._frame, **context)

    @property
    def _frame(self) -> dict[str, Any]:
        policy = self.ports.policy
        return {
            "subscription_state": self.state,
            "policy": policy,
            "base_url": policy.base_url.rstrip("/"),
            "at": DASHBOARD_PATH,
        }


def _find_state(user: User, now: datetime) -> SubscriptionState:
    """What the user's subscription permits now."""
    if user.has_api_access(now):
        return SubscriptionState.ACTIVE
    if user.subscription is Subscription.ENTERPRISE:
        return SubscriptionState.LAPSED
    return SubscriptionState.NONE


async def open_visit(request: PageRequest) -> Visit:
    """The visit of a page by anybody who is signed in. Raises SignInRequired."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    return Visit(call, visitor, _find_state(visitor.user, call.now))


async def open_subscriber_visit(request: PageRequest) -> Visit:
    """The visit of a page for subscribers, also once their subscription has ended.

    Raises SignInRequired, and NotFound for others: these pages are not there for them.
    """
    visit = await open_visit(request)
    if visit.state is SubscriptionState.NONE:
        raise NotFound("Page")
    return visit


async def open_form(
    request: PageRequest, *, of_webhooks: bool = False, needs_subscription: bool = True
) -> tuple[Visit, bytes]:
    """The visit that sends a form, and the CSRF-checked form. It is counted as the interface counts
    the same call: one `of_webhooks` in a window of its own. Raises RateLimitExceeded, and what
    `open_draft` raises.
    """
    visit, form = await open_draft(
        request, of_webhooks=of_webhooks, needs_subscription=needs_subscription
    )
    await visit.count()
    return visit, form


async def open_draft(
    request: PageRequest, *, of_webhooks: bool = False, needs_subscription: bool = True
) -> tuple[Visit, bytes]:
    """As `open_form`, for a page that refills a refused form: it counts the visit itself.

    Raises SignInRequired, NotFound, and Forbidden `csrf_failed` and `subscription_required`.
    """
    visit = await open_subscriber_visit(request)
    call = visit.call
    form = await read_verified_form(call, visit.visitor)
    if needs_subscription:
        check_subscription(visit.user, call.now)
    if of_webhooks:
        call.rules = (call.ports.policy.limits.webhooks,)
    return visit, form


def lead_to(path: str, flash_code: str = "") -> Redirect:
    """A redirect after a form, with the code of the message that the page shows."""
    return Redirect(f"{path}?{flash_code}" if flash_code else path, status_code=303)
