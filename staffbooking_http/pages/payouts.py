"""The earnings page of staff members, with their payout account, to which the processor's
onboarding returns."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from babel import Locale
from litestar import get, post
from litestar.response import Template

from staffbooking_core.domain.payments.payees import PayeeStatus
from staffbooking_core.domain.shared.countries import country_codes
from staffbooking_core.errors import InvalidInput, ProcessorUnavailable, RuleBroken
from staffbooking_core.inputs import OpenPayoutAccount
from staffbooking_core.usecases.payments import payees
from staffbooking_http.api.access import require_staff
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.earnings import earnings_context
from staffbooking_http.pages.rendering import view_of_scope
from staffbooking_http.pages.session import (
    PageRequest,
    find_visitor,
    get_call,
    has_flash_code,
    read_form,
    render,
    render_error,
    require_staff_member,
)
from staffbooking_http.pages.terms import figures_of

_PATH = "/staff/payouts"
_TEMPLATE = "payouts.html"
_NEED_LABELS: Mapping[str, str] = {
    "external_account": "Your bank account",
    "bank_account": "Your bank account",
    "document": "A picture of your identity document",
    "additional_document": "Another document, such as a proof of your address",
    "dob": "Your date of birth",
    "address": "Your address",
    "id_number": "Your tax or identity number",
    "ssn_last_4": "The last digits of your tax number",
    "phone": "Your phone number",
    "email": "Your e-mail address",
    "first_name": "Your name",
    "last_name": "Your name",
    "details": "Who you are, and your bank account",
    "tos_acceptance": "Your consent to the processor's terms",
    "business_profile": "What kind of work you do",
    "company": "Details of your company",
}
"""What the processor still needs, as message ids by a part of its own name."""
_OTHER_NEED_LABEL = "Some more details, which the payment processor will ask for"


@get(_PATH)
async def show_earnings(request: PageRequest) -> Template:
    """Show the earnings of a year, the payout account, and the form that opens it."""
    call = get_call(request)
    if (visitor := await find_visitor(call)) is None:
        return render(_TEMPLATE)
    require_staff(visitor.user, call.now)
    return render(_TEMPLATE, visitor, **await _page_context(call, visitor))


@post(_PATH, status_code=200)
async def open_payout_account(request: PageRequest) -> Template:
    """Open the account or continue its onboarding; the page links to the processor's page.

    A redirect would fail: browsers apply `form-action` to the redirects of a form too.
    """
    call = get_call(request)
    visitor = await require_staff_member(call)
    try:
        given = await read_form(call, visitor, OpenPayoutAccount)
        _, link = await payees.open_onboarding(call.ports, visitor.actor, given.country)
    except (RuleBroken, InvalidInput, ProcessorUnavailable) as error:
        return render_error(_TEMPLATE, visitor, error, **await _page_context(call, visitor))
    return render(_TEMPLATE, visitor, url=link.url)


async def _page_context(call: Call, visitor: SignedInUser) -> dict[str, Any]:
    """The template context of the earnings and of the payout account in its current state."""
    done = has_flash_code(call, b"done")
    find = payees.get_payee_on_return if done else payees.get_payee
    payee = await find(call.ports, visitor.actor)
    return {
        **figures_of(call.ports.policy),
        **await earnings_context(call, visitor),
        "status": PayeeStatus.NONE if payee is None else payee.status,
        "needs_account": payees.payouts_need_account(call.ports),
        "needs": () if payee is None else _needs_in_words(payee.needs),
        "refused": payees.REFUSED_MESSAGE,
        "country": call.ports.policy.country,
        "countries": _countries(view_of_scope(call.scope).locale.formats),
        "done": done,
        "again": has_flash_code(call, b"again"),
    }


def _needs_in_words(needs: Sequence[str]) -> Sequence[str]:
    """What the processor still needs, each thing once, as message ids."""
    return list(dict.fromkeys(map(_need_in_words, needs)))


def _need_in_words(need: str) -> str:
    known = (part for part in reversed(need.split(".")) if part in _NEED_LABELS)
    return next((_NEED_LABELS[part] for part in known), _OTHER_NEED_LABEL)


@lru_cache(maxsize=16)
def _countries(locale: Locale) -> Sequence[tuple[str, str]]:
    """The code and the name of each country, by name."""
    named = [(code, locale.territories.get(code, code)) for code in country_codes()]
    return sorted(named, key=lambda country: country[1].casefold())


PAGES = (show_earnings, open_payout_account)
