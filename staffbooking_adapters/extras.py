"""The extras of the package: what each brings, and the one line that names a missing one."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final, NamedTuple


class Extra(NamedTuple):
    """What an extra is for, with its verb, and the modules that its packages bring."""

    purpose: str
    modules: tuple[str, ...]


def _extra(purpose: str, modules: str) -> Extra:
    return Extra(purpose, tuple(modules.split()))


EXTRAS: Final = {
    "sqlite": _extra(
        "SQLite databases need", "aiosqlite alembic argon2 cryptography glin_profanity sqlalchemy"
    ),
    "postgres": _extra(
        "PostgreSQL databases need", "alembic argon2 asyncpg cryptography glin_profanity sqlalchemy"
    ),
    "stripe": _extra("Stripe payments need", "httpx stripe"),
    "redis": _extra("Messages over Redis need", "redis"),
    "images": _extra("Images need", "PIL"),
    "calendar": _extra("Calendar files need", "icalendar"),
    "mail": _extra("Mails over SMTP need", "aiosmtplib certifi idna jinja2"),
    "socketio": _extra("Socket.IO needs", "engineio socketio"),
    "worker": _extra(
        "Sending webhooks and fetching calendars need",
        "aiodns aiohttp certifi httptools pycares yarl",
    ),
    "http": _extra(
        "The HTTP server needs",
        "babel httptools jinja2 litestar multipart prometheus_client structlog uvicorn websockets"
        " aiodns aiohttp",
    ),
    "cli": _extra("The command line needs", "rich structlog typer"),
    "client": _extra("The HTTP client needs", "httpx"),
    "testing": _extra("The contract suites need", "hypothesis pytest"),
}


class MissingExtra(ImportError):
    """An extra of the package is not installed; the message is one line, which names it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{EXTRAS[name].purpose}: pip install 'staffbooking[{name}]'")


def has_extra(name: str) -> bool:
    """Whether all modules of an extra are installed; none of them is imported."""
    return all(find_spec(module) is not None for module in EXTRAS[name].modules)


def check_extra(name: str) -> None:
    """Raise MissingExtra unless the extra is installed. It is called before the import of what
    the extra brings."""
    if not has_extra(name):
        raise MissingExtra(name)
