"""The page of what waits for an operator."""

from litestar import get
from litestar.response import Template

from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.representations.json_types import format_instant
from staffbooking_core.usecases.accounts import administration
from staffbooking_core.usecases.bookings import disputes
from staffbooking_core.usecases.payments import refunds
from staffbooking_http.pages.administration.access import require_operator
from staffbooking_http.pages.session import PageRequest, get_call, render

_MAX_ROWS = 50


@get("/admin")
async def show_waiting(request: PageRequest) -> Template:
    """Show disputes, failed payouts and refunds, and what waits for an approval, to an admin."""
    call = get_call(request)
    visitor = await require_operator(call)
    ports = call.ports
    payouts = await administration.list_payouts(ports, 10 * _MAX_ROWS)
    return render(
        "admin/overview.html",
        visitor,
        disputes=[
            (each, format_instant(each.disputed_at))
            for each in await disputes.list_disputes(ports, 1, _MAX_ROWS)
        ],
        payouts=[each for each in payouts if each.payout_status is PayoutStatus.FAILED],
        refunds=await refunds.list_failed_refunds(ports, _MAX_ROWS),
        companions=await administration.list_companions(
            ports, 0, _MAX_ROWS, approval=Approval.PENDING
        ),
        items=await administration.list_portfolio_items(
            ports, PortfolioItemStatus.PENDING, 0, _MAX_ROWS
        ),
    )


PAGES = (show_waiting,)
