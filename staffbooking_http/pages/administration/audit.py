"""The audit for operators: who did what, why and when."""

from typing import Annotated, Any

from attrs import frozen
from litestar import get
from litestar.response import Template

from staffbooking_core.bounds import AllowedCharacters, TextBounds
from staffbooking_core.domain.accounts.audit import BOOKING_SUBJECTS, AuditEntry, AuditSubject
from staffbooking_core.errors import InvalidInput
from staffbooking_core.usecases.accounts import audit
from staffbooking_http.api import query_string
from staffbooking_http.pages.administration.access import require_operator
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    drop_empty_fields,
    get_call,
    render,
    render_error,
)

_TEMPLATE = "admin/audit.html"
_ROWS_OF_A_PAGE = 30
_PLACES = {
    AuditSubject.PERSON: "/admin/people/{}",
    AuditSubject.COMPANION: "/admin/people/{}",
    AuditSubject.DISPUTE: "/admin/bookings?code={}",
    AuditSubject.PAYOUT: "/admin/bookings?code={}",
    AuditSubject.REFUND: "/admin/bookings?code={}",
}
"""The page of a subject by its id or code."""


@frozen(kw_only=True)
class _Filters:
    subject: AuditSubject | None = None
    code: Annotated[str, TextBounds(100, characters=AllowedCharacters.OPAQUE)] | None = None
    by: Annotated[str, TextBounds(254)] | None = None
    page: query_string.PageNumber = 1


@frozen(kw_only=True)
class _FiltersDraft:
    """The filters before validation, to refill the form."""

    subject: DraftText = ""
    code: DraftText = ""
    by: DraftText = ""


@frozen
class _Row:
    entry: AuditEntry
    path: str
    """The page of the subject; empty without one."""
    code: str
    """The booking's code; empty for other subjects."""


@get("/admin/audit")
async def list_entries(request: PageRequest) -> Template:
    """List the audit, the newest first, by the filters of its form."""
    call = get_call(request)
    operator = await require_operator(call)
    raw = drop_empty_fields(call.scope["query_string"])
    draft = query_string.parse_form(_FiltersDraft, raw)
    context: dict[str, Any] = {"draft": draft, "subjects": list(AuditSubject)}
    try:
        wanted = query_string.parse_form(_Filters, raw)
    except InvalidInput as error:
        return render_error(
            _TEMPLATE, operator, error, rows=[], number=1, has_more=False, **context
        )
    code = None if wanted.code is None else wanted.code.strip().upper()
    found = await audit.list_audit_entries(
        *(call.ports, wanted.page, _ROWS_OF_A_PAGE, wanted.subject, code, wanted.by)
    )
    return render(
        _TEMPLATE,
        operator,
        rows=[_row(entry) for entry in found[:_ROWS_OF_A_PAGE]],
        number=wanted.page,
        has_more=len(found) > _ROWS_OF_A_PAGE,
        **context,
    )


def _row(entry: AuditEntry) -> _Row:
    path = _PLACES.get(entry.subject, "").format(entry.subject_id)
    return _Row(entry, path, entry.subject_id if entry.subject in BOOKING_SUBJECTS else "")


PAGES = (list_entries,)
