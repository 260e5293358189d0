"""Tests of the choice of a time zone."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from staffbooking_adapters.testing.builders import add_user
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.companions.availability import known_timezones
from staffbooking_http.pages.locales import find_locale
from staffbooking_http.pages.time_zones import ZoneGroup, format_offset, zone_groups
from tests.http.deployment import HttpDeployment

WINTER, SUMMER = date(2026, 1, 15), date(2026, 7, 15)


def groups(
    language: str = "en",
    today: date = WINTER,
    chosen: str = "UTC",
    country: str = "",
    city: str = "",
) -> list[ZoneGroup]:
    return zone_groups(find_locale(language), today, chosen, country, city)


def likely(**given: str) -> list[str]:
    return [option.name for option in groups(**given)[0].options]  # type: ignore[arg-type]


def test_the_choice_is_short_and_grouped() -> None:
    """Fewer than 330 zones stand in regions, each once; UTC is the last one."""
    found = groups()
    names = [option.name for group in found[1:] for option in group.options]
    assert [group.label for group in found][:4] == ["Likely yours", "Europe", "Americas", "Africa"]
    assert len(names) == len(set(names)) < 330
    assert set(names) <= known_timezones()
    assert names[-1] == "UTC"


def test_zones_are_named_by_cities_and_offset() -> None:
    """Zones of a country with the same clock are one option with their cities; the offset is that
    of the day."""
    for today, offset in ((WINTER, "UTC"), (SUMMER, "UTC+1")):
        [europe] = [group for group in groups(today=today) if group.label == "Europe"]
        labels = {option.name: option.label for option in europe.options}
        assert labels["Europe/Lisbon"] == f"Lisbon, Madeira ({offset})"
    [americas] = [group for group in groups() if group.label == "Americas"]
    assert any(option.label.startswith("New York, Detroit") for option in americas.options)


@pytest.mark.parametrize(
    ("given", "first"),
    [
        ({"country": "Portugal"}, ["Europe/Lisbon", "Atlantic/Azores"]),
        ({"country": " portugal ", "city": "Madeira"}, ["Atlantic/Madeira", "Europe/Lisbon"]),
        ({"country": "Schweiz"}, ["Europe/Zurich"]),
        ({"country": "BR"}, ["America/Sao_Paulo"]),
        ({"language": "en-US"}, ["America/New_York"]),
        (
            {"chosen": "America/Detroit", "country": "Portugal"},
            ["America/Detroit", "Europe/Lisbon"],
        ),
    ],
)
def test_likely_zones_come_first(given: dict[str, str], first: list[str]) -> None:
    """The chosen zone, that of the city, and those of the country or of the locale come first."""
    assert likely(**given)[: len(first)] == first


def test_an_unknown_zone_is_no_option() -> None:
    """A name that is no time zone is not offered."""
    for name in ("Mars", "../etc/passwd", ""):
        assert name not in [
            option.name for group in groups(chosen=name) for option in group.options
        ]


@pytest.mark.parametrize(
    ("minutes", "text"), [(0, "UTC"), (330, "UTC+5:30"), (-210, "UTC\u22123:30"), (780, "UTC+13")]
)
def test_offsets_are_short(minutes: int, text: str) -> None:
    """An offset has minutes only where they are not zero."""
    assert format_offset(timedelta(minutes=minutes)) == text


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/staff/hours", "/staff/me"])
async def test_the_zone_of_a_refused_form_is_not_guessed(world: HttpDeployment, path: str) -> None:
    """The browser's zone is chosen for a new staff member until they have sent a choice."""
    new = await add_user(world.store, email="new@example.com", role=Role.STAFF)
    staff = await world.signed_in_client(new.id)
    assert "data-guess" in (await staff.get(path)).text
    given = {"csrf": staff.headers.pop("x-csrf-token"), "timezone": "Europe/Lisbon", "step": "save"}
    refused = await staff.post(path, data={**given, "from-0-0": "9", "hourly_rate": "x"})
    assert refused.status_code == 400
    assert '<option value="Europe/Lisbon" selected' in refused.text
    assert "data-guess" not in refused.text
