"""Faults of forms in people's words: what the interface says of a field, as its form says it."""

import re
from collections.abc import Mapping
from gettext import NullTranslations
from typing import Any

from attrs import frozen

from staffbooking_http.pages.locales import PageLocale, find_locale

_SENTENCES: tuple[tuple[str, str], ...] = (
    (r"is required|must not be blank|must be a text", "Fill this in."),
    (r"must have [01] to (?P<most>\d+) characters", "Use at most %(most)s characters."),
    (r"must have (?P<least>\d+) to (?P<most>\d+) characters",
     "Use %(least)s to %(most)s characters."),
    (r"must not hold the character .*", "It contains a character that can't be used here."),
    (r"must be an e-mail address", "Enter an e-mail address such as name@example.com."),
    (r"must be the IANA name of a timezone", "Choose a time zone from the list."),
    (r"must be the two letters of a country.*", "Choose a country."),
    (r"must be a time of the form .*", "Enter a time such as 18:30."),
    (r"must be an integer", "Enter a whole number."),
    (r"must be from (?P<least>\S+) to (?P<most>\S+)", "Enter a number from %(least)s to %(most)s."),
    (r"must be above (?P<least>\S+) and at most (?P<most>\S+)",
     "Enter a number above %(least)s, at most %(most)s."),
    (r"must cost at most (?P<most>.+)", "Choose fewer hours: a payment is at most %(most)s."),
    (r"must be a (decimal )?number", "Enter a number."),
    (r"must not be negative", "Enter a number that is not below zero."),
    (r"must have at most (?P<most>\d+) digits", "Use at most %(most)s digits."),
    (r"must be a date of the form .*", "Choose a date."),
    (r"must lie between (?P<least>\S+) and (?P<most>\S+)",
     "Choose a date from %(least)s to %(most)s."),
    (r"must not be after (?P<last>\S+)", "Choose a date until %(last)s."),
    (r"has more than (?P<most>\d+)\d{6} bytes", "Choose a smaller file, of at most %(most)s MB."),
    (r"A file has at most (?P<most>\d+)\d{6} bytes here",
     "Choose a smaller file, of at most %(most)s MB."),
    (r"(A body|The form without its file) has at most \d+ bytes here",
     "That is more text than fits here. Go back, and make it shorter."),
    (r"must be one of .*", "Choose one of these."),
    (r"must have (?P<least>\d+) to (?P<most>\d+) elements", "Give %(least)s to %(most)s of them."),
    (r"must not be above max_price", "The lowest price is above the highest."),
    (r"must be a month of the form .*", "Choose a month."),
    (r"must not repeat an element", "Name each only once."),
    (r"contains contact or payment details before .*",
     "Contact and payment details can be shared once the booking is paid. Please take them out."),
    (r"contains words that are not allowed here", "It contains words that are not allowed here."),
    (r"is not a JPEG, PNG or WebP image", "Choose a JPEG, PNG or WebP picture."),
    (r"is of type .*, and was sent as another", "It is another kind of file than its name says."),
    (r"is empty", "It is empty. Choose another file."),
    (r"must not contain a comma.*", "It can't contain a comma."),
    (r"The request comes from a foreign page, not from (?P<address>\S+)",
     "This page was opened at another address than the service's. Open %(address)s instead."),
)  # fmt: skip
"""The pattern of an interface's message, and the sentence that a form shows in its place."""

_TRANSLATED_SENTENCES: tuple[tuple[str, str], ...] = (
    (r"A portfolio has at most (?P<most>\d+) items", "A portfolio has at most %(most)s items."),
    (r"One may keep at most (?P<most>\d+) images", "You can keep at most %(most)s images."),
    (r"One may upload at most (?P<most>\d+) files for a booking",
     "You can add at most %(most)s files to a booking."),
    (r"A dispute has at most (?P<most>\d+) statements",
     "A dispute has at most %(most)s statements of each side."),
    (r"A user has at most (?P<most>\d+) webhooks", "An account has at most %(most)s endpoints."),
    (r"An account has at most (?P<most>\d+) active keys",
     "An account has at most %(most)s active keys."),
    (r"A payment is at least (?P<least>.+)", "A payment is at least %(least)s."),
    (r"Not possible while the booking is .+", "That is not possible in the booking's state."),
    (r"The .+ may not .+: only .+ may", "That is for the other side of the booking."),
    (r"The \w+ has no part in a dispute", "You have no part in this dispute."),
    (r"The customer's part must be from (?P<least>\S+) to (?P<most>[^\s,]+)",
     "The customer's part must be from %(least)s to %(most)s."),
    (r"The customer's part must be from (?P<least>\S+) to (?P<most>\S+), or all (?P<all>\S+) .+",
     "The customer's part must be from %(least)s to %(most)s, or all %(all)s with the premium."),
    (r"The profile has no .+ yet", "The profile is not complete yet."),
    (r"is one too many: at most (?P<most>\d+) may be set", "At most %(most)s can be set."),
    (r"has more than (?P<most>\d+) busy times", "It has more than %(most)s busy times."),
    (r"is of type (?P<type>\S+), and was sent as another",
     "It is a file of another type (%(type)s) than its name says."),
    (r"must have at most (?P<most>\d+) characters", "Use at most %(most)s characters."),
    (r"The body must be (?P<type>\S+) in UTF-8", "The body must be %(type)s in UTF-8."),
    (r"is too far: at most (?P<most>\d+) days may differ",
     "It is too far: at most %(most)s days may have other hours."),
    (r"is too far: at most (?P<most>\d+) days at once",
     "It is too far: at most %(most)s days can be set at once."),
    (r"has more than (?P<most>\d+) decimals", "Use at most %(most)s decimals."),
    (r"You have (?P<most>\d+) calendar addresses, which is the limit: remove one first",
     "You have %(most)s calendar addresses, which is the limit. Remove one first."),
)  # fmt: skip
"""As `_SENTENCES`, for messages with figures or names that stay as they are in English."""


def _compile(
    sentences: tuple[tuple[str, str], ...],
) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), sentence) for pattern, sentence in sentences)


_RULES, _TRANSLATED_RULES = _compile(_SENTENCES), _compile(_TRANSLATED_SENTENCES)

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_PREDICATE = re.compile(r"(is|has|must|was|needs|does|lies|leads|asks|could|can't)\b")

_FIELD_LABELS = {
    "content": "Your message",
    "duration_hours": "Duration",
    "email": "E-mail",
    "event_date": "Date",
    "event_ref": "Name of the event",
    "file": "The file",
    "location": "Place",
    "location_city": "City",
    "location_country": "Country",
    "service_type": "Service",
    "service_types": "List of services",
    "start_time": "Start",
    "timezone": "Time zone",
    "years_experience": "Years of experience",
}
"""Labels of fields whose form label differs from the field name."""


def fault_sentence(message: str, locale: PageLocale) -> str:
    """The sentence that a form shows at a field for the interface's message about it."""
    if sentence := _known_sentence(message, locale):
        return sentence
    source = english_fault(message)
    return _translated_sentence(message, locale) or locale.translations.gettext(source)


def english_fault(message: str) -> str:
    """The English sentence, as a message id, for an interface's message that has no other."""
    text = message.replace("_", " ")
    text = f"It {text}" if _PREDICATE.match(text) else f"{text[:1].upper()}{text[1:]}"
    return _end(text)


def labelled_fault(field: str, message: str, locale: PageLocale) -> str:
    """The sentence about a field that stands away from it, with the field's label."""
    label = field_label(field, locale.translations)
    if sentence := _known_sentence(message, locale):
        return f"{label}: {sentence}"
    if (sentence := fault_sentence(message, locale)) != english_fault(message):
        return f"{label}: {sentence}"
    return _end(f"{label} {message.replace('_', ' ')}")


def _known_sentence(message: str, locale: PageLocale) -> str | None:
    for pattern, sentence in _RULES:
        if found := pattern.fullmatch(message):
            return locale.translations.gettext(sentence) % _shown_groups(found, locale)
    return None


def _translated_sentence(message: str, locale: PageLocale) -> str | None:
    """The sentence in a language other than English; None where it has none."""
    for pattern, sentence in _TRANSLATED_RULES:
        found, text = pattern.fullmatch(message), locale.translations.gettext(sentence)
        if found and text != sentence:
            return text % _shown_groups(found, locale)
    return None


def _shown_groups(found: re.Match[str], locale: PageLocale) -> dict[str, str]:
    """The figures and names of a message, with its dates as the pages show dates."""
    return {
        name: locale.format_date(text) if _DATE.fullmatch(text) else text
        for name, text in found.groupdict().items()
    }


@frozen
class ErrorSentence:
    """The body of an error of the interface, which a page tells in its visitor's language."""

    problem: Mapping[str, Any]

    def in_locale(self, locale: PageLocale) -> str:
        """The error as a sentence, with all faults of an input."""
        translations = locale.translations
        if seconds := self.problem.get("retry_after"):
            minutes = -(-seconds // 60)
            return translations.ngettext(
                "That was too often. Try again in %(num)d minute.",
                "That was too often. Try again in %(num)d minutes.",
                minutes,
            ) % {"num": minutes}
        if found := faults_by_field(self.problem):
            return " ".join(labelled_fault(*fault, locale) for fault in found.items())
        message: str = self.problem["error"]
        known = _known_sentence(message, locale) or _translated_sentence(message, locale)
        return known or _end(translations.gettext(message))

    def __str__(self) -> str:
        return self.in_locale(find_locale(""))


def _end(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def field_label(field: str, translations: NullTranslations) -> str:
    """The form label of a field path; a list element is named by its position, from 1."""
    name, _, place = field.partition(".")
    label = _FIELD_LABELS.get(name, name.replace("_", " ").capitalize())
    text = translations.gettext(label)
    return f"{text}: {int(place) + 1}" if place.isdecimal() else text


def faults_by_field(problem: Mapping[str, Any]) -> dict[str, str]:
    """The first message of each field in the body of an error response."""
    faults: dict[str, str] = {}
    for fault in problem.get("errors", ()):
        faults.setdefault(fault["field"], fault["message"])
    return faults
