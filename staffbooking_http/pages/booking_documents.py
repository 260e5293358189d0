"""What people keep of a booking: its receipt, to be printed, and its calendar file."""

from litestar import Response, get
from litestar.response import Template

from staffbooking_core.errors import NotFound
from staffbooking_core.usecases.bookings import details
from staffbooking_http.pages.booking_views import booking_context
from staffbooking_http.pages.session import PageRequest, get_call, render, require_signed_in


@get("/bookings/{number:str}/receipt")
async def show_receipt(request: PageRequest) -> Template:
    """Show the receipt of a booking that was paid; for the staff member, with fee and payout."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    found = await details.get_details(call.ports, visitor.actor, call.path_id("Booking"))
    if found.booking.paid_at is None:
        raise NotFound("Receipt")
    return render("booking_receipt.html", visitor, **booking_context(found, call.ports.policy))


@get("/bookings/{number:str}/calendar.ics")
async def download_calendar(request: PageRequest) -> Response[bytes]:
    """The booking as an iCalendar file."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    number = call.path_id("Booking")
    booking, content = await details.render_calendar(call.ports, visitor.actor, number)
    headers = {"content-disposition": f'attachment; filename="{booking.code}.ics"'}
    return Response(content, media_type="text/calendar", headers=headers)


PAGES = (show_receipt, download_calendar)
