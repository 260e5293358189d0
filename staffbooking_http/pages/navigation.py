"""The navigation of the pages: which pages each kind of visitor is led to."""

from collections.abc import Mapping, Sequence

from attrs import frozen

from staffbooking_core.domain.accounts.users import Role, Subscription, User


@frozen
class NavigationItem:
    """A page in the navigation: its path, its label as a message id, and its icon."""

    path: str
    label: str
    icon: str


_HOME = NavigationItem("/", "Bookings", "calendar")
_SEARCH = NavigationItem("/find", "Find staff", "search")
_MESSAGES = NavigationItem("/conversations", "Messages", "chat")
_ACCOUNT = NavigationItem("/account", "Account", "user")
_DASHBOARD = NavigationItem("/dashboard", "Dashboard", "key")

SIGNED_OUT_NAVIGATION = (
    _SEARCH,
    NavigationItem("/how-it-works", "How it works", "info"),
)
NAVIGATION_BY_ROLE: Mapping[Role, Sequence[NavigationItem]] = {
    Role.CUSTOMER: (_HOME, _SEARCH, _MESSAGES, _ACCOUNT),
    Role.STAFF: (
        NavigationItem("/", "Agenda", "home"),
        NavigationItem("/staff/hours", "Hours", "calendar"),
        _MESSAGES,
        NavigationItem("/staff/payouts", "Earnings", "wallet"),
        NavigationItem("/staff/me", "Profile", "user"),
    ),
    Role.ADMIN: (
        NavigationItem("/admin", "Operations", "shield"),
        _HOME,
        _SEARCH,
        _MESSAGES,
    ),
}
"""At most five pages of each role: they stand in one row at the bottom of a phone."""

_MAX_ITEMS = 5


def navigation_of(user: User) -> Sequence[NavigationItem]:
    """The navigation of a signed-in user: that of the role, and the dashboard for those who have
    or had a subscription to the API."""
    items = NAVIGATION_BY_ROLE[user.role]
    is_subscriber = user.role is Role.ADMIN or user.subscription is Subscription.ENTERPRISE
    return (*items, _DASHBOARD) if is_subscriber and len(items) < _MAX_ITEMS else items
