"""Access to the pages of operators."""

from staffbooking_core.errors import NotFound
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.session import require_signed_in


async def require_operator(call: Call) -> SignedInUser:
    """The signed-in admin. Raises SignInRequired, and NotFound for others: operators' pages are
    not there for them."""
    operator = await require_signed_in(call)
    if not operator.actor.is_admin:
        raise NotFound("Page")
    return operator
