"""The navigation of the pages: which pages each kind of visitor is led to."""

from collections.abc import Mapping, Sequence

from attrs import frozen

from staffbooking_core.domain.accounts.users import Role


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
