"""The search for people, and the page of one person, for operators."""

from typing import Annotated, Any

from attrs import asdict, evolve, frozen
from litestar import get
from litestar.response import Template

from staffbooking_core.bounds import TextBounds
from staffbooking_core.domain.accounts.users import AccountState, Role
from staffbooking_core.domain.companions.companion import missing_fields
from staffbooking_core.domain.payments.payees import PayeeStatus
from staffbooking_core.errors import InvalidInput
from staffbooking_core.inputs import Id
from staffbooking_core.usecases.accounts import people
from staffbooking_core.usecases.accounts.people import PeopleFilter, PersonFile
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.administration.access import require_operator
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    drop_empty_fields,
    flash_text,
    get_call,
    page_number,
    render,
    render_error,
)

_LIST_PATH = "/admin/people"
_LIST_TEMPLATE = "admin/people.html"
_PAGE_SIZE = 25

_FLASH_TEXTS = {
    "disabled": "The account is disabled. Nobody can sign in with it.",
    "enabled": "The account works again.",
    "subscription": "The subscription is set.",
    "role": "The role is changed.",
    "key": "The key is revoked.",
}
"""Messages of the page of a person by flash code in the query string."""


@frozen(kw_only=True)
class _PeopleQuery:
    q: Annotated[str, TextBounds(100, 0)] = ""
    role: Role | None = None
    state: AccountState | None = None
    after: Id | None = None


@frozen(kw_only=True)
class _PeopleDraft:
    """The filters as they were given, to refill the form."""

    q: DraftText = ""
    role: DraftText = ""
    state: DraftText = ""


@get(_LIST_PATH)
async def list_people(request: PageRequest) -> Template:
    """Find people by name, e-mail address, id or booking code, role and state."""
    call = get_call(request)
    operator = await require_operator(call)
    given = drop_empty_fields(call.scope["query_string"])
    filters: dict[str, Any] = {"roles": list(Role), "states": list(AccountState)}
    try:
        query = query_string.parse_query(_PeopleQuery, given)
    except InvalidInput as error:
        draft = asdict(query_string.parse_form(_PeopleDraft, given))
        return render_error(_LIST_TEMPLATE, operator, error, given=draft, **filters)
    wanted = PeopleFilter(text=query.q, role=query.role, state=query.state)
    page = await people.find_people(call.ports, wanted, query.after, _PAGE_SIZE)
    shown = asdict(evolve(query, after=None))
    return render(
        _LIST_TEMPLATE, operator, given=shown, page=page, is_first=query.after is None, **filters
    )


@get(_LIST_PATH + "/{number:str}")
async def show_person(request: PageRequest) -> Template:
    """Show a person: account, bookings, payouts, keys, reviews, and what operators did."""
    call = get_call(request)
    operator = await require_operator(call)
    page = page_number(call)
    found = await people.get_person(call.ports, call.path_id("User"), page)
    return render(
        "admin/person.html",
        operator,
        person=found.user,
        file=found,
        done=flash_text(call, _FLASH_TEXTS),
        number=page,
        now=await call.ports.clock.business(),
        wall=call.ports.clock.wall(),
        **_details(call, found),
    )


def _details(call: Call, found: PersonFile) -> dict[str, Any]:
    """What the template needs in another form."""
    policy = call.ports.policy
    companion = found.companion
    rate = 0 if companion is None else companion.hourly_rate
    return {
        "currency": policy.currency.code,
        "hourly_rate": policy.currency.to_decimal(rate),
        "missing": [] if companion is None else missing_fields(companion),
        "payee_status": PayeeStatus.NONE if found.payee is None else found.payee.status,
    }


PAGES = (list_people, show_person)
