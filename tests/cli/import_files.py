"""Companion files in each format, and the output of their import."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from tests.cli.deployment import CliDeployment

MIA: dict[str, Any] = {
    "email": "mia@example.com",
    "first_name": "Mia",
    "last_name": "Lindqvist",
    "tagline": "Calm hands, “quick” feet",
    "bio": "First line.\nSecond line, with a comma.",
    "hourly_rate": 45.5,
    "daily_rate": 300,
    "location_city": "Lisbon",
    "location_country": "Portugal",
    "timezone": "Europe/Lisbon",
    "service_types": ["Gala dinner", "Trade fair"],
    "languages": ["English"],
    "tier": "premium",
    "badges": ["verified"],
    "weekly": [{"weekday": 0, "start": "09:00", "end": "24:00"}],
    "overrides": [{"date": "2027-03-01", "slots": []}],
    "approved": True,
}
REQUIRED = [
    "email",
    "first_name",
    "last_name",
    "hourly_rate",
    "location_city",
    "location_country",
    "timezone",
    "service_types",
]


def person(number: int, **given: Any) -> dict[str, Any]:
    """A companion with only the required fields."""
    least = {name: MIA[name] for name in REQUIRED}
    return {**least, "email": f"mia{number}@example.com", **given}


def as_csv(rows: list[dict[str, Any]]) -> str:
    """Rows as a spreadsheet writes them, with a column for every field of any row."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    for row in rows:
        writer.writerow({name: cell(value) for name, value in row.items()})
    return text.getvalue()


def cell(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case [dict(), *_]:
            return json.dumps(value)
        case list():
            return " ; ".join(value)
    return str(value)


def as_array(rows: list[dict[str, Any]]) -> str:
    return json.dumps(rows, indent=2)


def as_lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


FORMATS = {"csv": as_csv, "json": as_array, "jsonl": as_lines}


def imported(deployment: CliDeployment, path: Path) -> Any:
    """The JSON document of an import, validated, whatever the exit code."""
    result = deployment.run_command("companions", "import", path, "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == bool(document["skipped"])
    return document


def skipped(deployment: CliDeployment, path: Path) -> list[tuple[int, str | None, str]]:
    found = imported(deployment, path)["skipped"]
    return [(one["line"], one["email"], one["reason"]) for one in found]
