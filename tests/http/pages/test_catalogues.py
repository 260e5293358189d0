"""The catalogues of languages: sound and complete translations, and their use."""

from __future__ import annotations

import re

import pytest
from babel.messages import Message

from staffbooking_core.domain.accounts.users import Language
from staffbooking_http.pages.faults import fault_sentence
from staffbooking_http.pages.locales import LANGUAGES, find_locale, load_translations
from tests.http.deployment import HttpDeployment
from tests.http.pages.test_account import ADA, SIGN_IN
from tests.http.pages.test_bookings import PEOPLE
from tests.support import catalogues

pytestmark = pytest.mark.anyio

PLACEHOLDER = re.compile(r"%\((\w+)\)([sd])|%%|\{(\w+)\}")
TAG = re.compile(r"<[^>]*>")

LANGUAGE = pytest.mark.parametrize("language", catalogues.TRANSLATED)


def entries(language: str) -> list[Message]:
    """The translated entries of a catalogue, without its header."""
    return [each for each in catalogues.read(language) if each.id and each.string]


def texts(value: str | list[str] | tuple[str, ...] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


@LANGUAGE
def test_placeholders_and_tags_agree(language: str) -> None:
    """A translation has the placeholders and the tags of its message: no value is lost, and none
    is made up. A plural may leave its number out of the singular."""
    for entry in entries(language):
        ids, strings = texts(entry.id), texts(entry.string)
        assert len(strings) == (2 if entry.pluralizable else 1), entry.id
        for text in filter(None, strings):
            for pattern in (PLACEHOLDER, TAG):
                found = sorted(match[0] for match in pattern.finditer(text))
                wanted = [sorted(match[0] for match in pattern.finditer(each)) for each in ids]
                assert found in wanted, (entry.id, text)


@LANGUAGE
def test_nothing_is_guessed(language: str) -> None:
    """No translation is fuzzy, and none is left over from a message that is gone."""
    catalogue = catalogues.read(language)
    assert not [each.id for each in catalogue if each.id and each.fuzzy]
    assert not catalogue.obsolete


@LANGUAGE
def test_every_message_is_translated(language: str) -> None:
    """Every message of the pages has its translation."""
    assert catalogues.missing(language) == []


def test_every_language_is_offered() -> None:
    """Each language that an account may have is shown, and has its formats."""
    assert set(LANGUAGES) == set(Language)
    for language in Language:
        assert find_locale("", language).formats.language == language


def test_plurals_follow_the_language() -> None:
    """One and many are told apart, also for nothing."""
    plural = load_translations("de").ngettext
    one, many = "%(num)d review", "%(num)d reviews"
    assert [plural(one, many, number) for number in (0, 1, 2)] == [
        "%(num)d Bewertungen",
        "%(num)d Bewertung",
        "%(num)d Bewertungen",
    ]


def test_a_context_tells_two_meanings_apart() -> None:
    """The hours of a booking are not those of a week; both are messages of the catalogues."""
    german = load_translations("de")
    assert german.pgettext("a length", "Hours") == "Stunden"
    assert german.gettext("Hours") == "Zeiten"
    assert {"a length\4Hours", "Hours"} <= set(catalogues.messages())


def test_titles_of_steps_are_messages() -> None:
    """The steps of a timeline that follow from no trigger are translated too."""
    assert {"Checked in", "The event begins", "The event ends"} <= set(catalogues.messages())


def test_texts_of_cancelled_bookings_are_messages() -> None:
    """What becomes of the money of a cancelled booking, and by which rule, is translated too."""
    assert {
        "When the staff member cancels, everything goes back.",
        "%(share)s has gone back to %(customer)s.",
        "%(share)s has gone back to you.",
        "Nothing goes back.",
    } <= set(catalogues.messages())


async def test_pages_speak_the_browsers_language(each_world: HttpDeployment) -> None:
    """Texts, dates and money are those of the language that the browser asks for."""
    client = each_world.client()
    shown = (await client.get("/terms", headers={"accept-language": "de-AT,de;q=0.9"})).text
    assert '<html lang="de"' in shown
    assert "Stornoversicherung" in shown
    portuguese = (await client.get("/terms", headers={"accept-language": "pt"})).text
    assert '<html lang="pt"' in portuguese
    assert "Seguro de cancelamento" in portuguese


async def test_a_language_is_chosen_before_the_sign_in(world: HttpDeployment) -> None:
    """The choice in the footer holds for the browser, whatever it asks for."""
    client = world.client()
    sent = await client.post("/preferences/language?next=/terms", data={"language": "de"})
    assert sent.headers["location"] == "/terms"
    shown = (await client.get("/terms", headers={"accept-language": "en"})).text
    assert '<html lang="de"' in shown
    await client.post("/preferences/language", data={"language": "xx"})
    assert '<html lang="en"' in (await client.get("/terms")).text


async def test_refusals_are_told_in_the_language(world: HttpDeployment) -> None:
    """What use-cases refuse in English is told in the visitor's language."""
    client = world.client()
    client.headers.update({**PEOPLE, "accept-language": "de"})
    refused = await client.post(SIGN_IN, data={**ADA, "password": "wrong"})
    assert "Die E-Mail-Adresse oder das Passwort ist falsch." in refused.text
    sent = await client.post("/contact-us", data={"name": "Ada", "email": "nobody", "message": "x"})
    assert "Geben Sie eine E-Mail-Adresse wie name@example.com ein." in sent.text


def test_faults_of_addresses_are_messages() -> None:
    """The faults of a webhook's or a calendar's address, which both have from one check, are
    messages of the catalogues."""
    known = catalogues.messages()
    for fault in ("It must be an https URL.", "It must lead to a public address."):
        assert fault in known


@pytest.mark.parametrize(
    "message",
    [
        "Say when you work",
        "Until then you count as free all day, every day.",
        "Set your hours",
        "Your consent to the processor's terms",
        "Pictures of your work",
        "Payments",
        "The refund takes a minute",
        "subscriber",
        "Payout date",
        "Chargeback: the verdict changed",
    ],
)
def test_labels_of_pages_are_messages(message: str) -> None:
    """The checklist of new staff members, what the payment processor needs, the parts of a profile,
    the faults that testers arm, the accounts of the sample and the columns of the earnings are
    messages of the catalogues."""
    assert message in catalogues.messages()


@pytest.mark.parametrize(
    "message",
    [
        "There is no booking with this code.",
        "The form has lapsed: load its page again",
        "The payout is not on hold",
        "The payment processor did not open the account; try another country, or ask us",
        "The payment processor is temporarily unavailable; try again later",
        "It leads to a calendar that is too large.",
    ],
)
def test_messages_of_errors_are_messages(message: str) -> None:
    """So are messages of errors that are constants, or that a function or the class itself gives
    to the error."""
    assert message in catalogues.messages()


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "is too far: at most 366 days may differ",
            "Das ist zu weit: Höchstens 366 Tage dürfen andere Zeiten haben.",
        ),
        (
            "is too far: at most 31 days at once",
            "Das ist zu weit: Höchstens 31 Tage auf einmal sind möglich.",
        ),
        ("has more than 2 decimals", "Verwenden Sie höchstens 2 Nachkommastellen."),
        (
            "You have 5 calendar addresses, which is the limit: remove one first",
            "Sie haben 5 Kalenderadressen, mehr sind nicht möglich. Entfernen Sie zuerst eine.",
        ),
    ],
)
def test_messages_with_figures_are_translated(message: str, told: str) -> None:
    """A message of an error with a figure in it is told in the language, with its figure."""
    assert fault_sentence(message, find_locale("de")) == told
