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


def navigation_of(user: User) -> Sequence[NavigationItem]:
    """The navigation of a signed-in user: that of the role. Customers who have or had a
    subscription to the API are led to the dashboard in place of the account, to which their name
    leads too."""
    items = NAVIGATION_BY_ROLE[user.role]
    if user.subscription is not Subscription.ENTERPRISE:
        return items
    return tuple(_DASHBOARD if item is _ACCOUNT else item for item in items)
