"""The page of what needs an operator."""

import re
from collections.abc import Mapping

from litestar import get
from litestar.response import Template

from staffbooking_core.ports import MAX_COUNTED_WAITING, WaitingKind
from staffbooking_core.usecases.bookings import attention
from staffbooking_http.pages.administration.access import require_operator
from staffbooking_http.pages.locales import PageLocale
from staffbooking_http.pages.rendering import view_of_scope
from staffbooking_http.pages.session import PageRequest, get_call, page_number, render

_PLACES: Mapping[WaitingKind, str] = {
    WaitingKind.DISPUTE: "/admin/disputes",
    WaitingKind.OVERDUE_DISPUTE: "/admin/disputes",
    WaitingKind.FAILED_PAYOUT: "/admin/money?show=failed",
    WaitingKind.HELD_PAYOUT: "/admin/money?show=held",
    WaitingKind.FAILED_REFUND: "/admin/money?show=refunds",
    WaitingKind.COMPANION: "/admin/approvals",
    WaitingKind.PORTFOLIO_ITEM: "/admin/approvals",
    WaitingKind.INQUIRY: "/admin/inquiries",
    WaitingKind.SILENT_ENDPOINT: "/admin/endpoints",
}
"""The page on which each kind is done."""


@get("/admin")
async def show_waiting(request: PageRequest) -> Template:
    """Show what waits for an operator, and the alerts."""
    call = get_call(request)
    operator = await require_operator(call)
    number = page_number(call)
    locale = view_of_scope(call.scope).locale
    found = await attention.get_attention(call.ports, number)
    return render(
        "admin/overview.html",
        operator,
        waiting=found.waiting,
        most=MAX_COUNTED_WAITING,
        places=_PLACES,
        calm=[kind for kind in WaitingKind if kind not in {each.kind for each in found.waiting}],
        alerts=[(each, _sentence(each.text, locale)) for each in found.alerts],
        has_more=found.has_more_alerts,
        number=number,
        clock_fault=found.clock_fault,
    )


def _sentence(text: str, locale: PageLocale) -> str:
    """The text of an alert as a sentence, with its moments as people write them."""

    def moment(found: re.Match[str]) -> str:
        return locale.format_moment(found[0])

    told = _MOMENT.sub(moment, text)
    return f"{told[:1].upper()}{told[1:]}"


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?\+00:00")


PAGES = (show_waiting,)
