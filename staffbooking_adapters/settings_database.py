"""The database's setting: a URL of SQLite or of PostgreSQL.

No message shows a part of the URL: with an unescaped character in it, any part may belong to the
password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

# The service waits in its own way for SQLite's locks, whatever the usual option says.
_SQLITE_URL = re.compile(r"sqlite\+aiosqlite:////*[^/?][^?]*(\?timeout=[0-9.]+)?")
_POSTGRES_URL = re.compile(  # As SQLAlchemy divides it.
    r"postgresql\+asyncpg://"
    r"([^:/]*(:[^@]*)?@)?"
    r"(\[(?P<ipv6>[^/?]+)\]|(?P<host>[^/:?]+))?(:(?P<port>[^/?]*))?"
    r"(/(?P<database>[^?]*))?(\?(?P<query>.*))?"
)
_HOST = re.compile(r"/.*|(\[[^\]]+\]|[^\[/:]+)(:(?P<port>.*))?")
"""One of the hosts of the option `host`: a folder of sockets, or an address and perhaps a port."""

_OPTIONS = frozenset(
    """
    database dbname gsslib host krbsrvname passfile password port service ssl_max_protocol_version
    ssl_min_protocol_version sslcert sslcrl sslkey sslmode sslpassword sslrootcert
    target_session_attrs user
    """.split()
)
"""What asyncpg reads from a URL. It sends others to the server as settings, which the service's own
would meet."""
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def parse_database_url(text: str) -> str:
    """The URL of a database. Raises ValueError with what it must be."""
    if _SQLITE_URL.fullmatch(text):
        if str(_sqlite_file(text)) == ":memory:":  # each connection would have its own
            raise ValueError("must name a file: `memory_ports` keeps all in memory")
        return text
    found = _POSTGRES_URL.fullmatch(text)
    if found is None or not text.partition("://")[2].strip("/"):
        raise ValueError(
            "must be sqlite+aiosqlite:///FILE or postgresql+asyncpg://USER@HOST/DATABASE"
        )
    options = parse_qs(found["query"] or "", keep_blank_values=True)
    if not all(map(_is_port, _ports(found["port"], options))):
        raise ValueError(
            "must have a port from 1 to 65535, and %XX for special characters in a password"
        )
    if not options.keys() <= _OPTIONS or not all(map(all, options.values())):
        raise ValueError(f"may only have these options, with values: {', '.join(sorted(_OPTIONS))}")
    if not {*options.get("sslmode", ())} <= {*_SSL_MODES}:
        raise ValueError(f"must have one of these as sslmode: {', '.join(_SSL_MODES)}")
    return text


def _ports(port: str | None, options: dict[str, list[str]]) -> Iterator[str]:
    """All ports of a URL of PostgreSQL. A host that is none counts as a port that is none."""
    if port:
        yield port
    for value in options.get("port", ()):
        yield from value.split(",")
    for value in options.get("host", ()):
        for host in value.split(","):
            found = _HOST.fullmatch(host)
            if found is None or found["port"]:
                yield found["port"] if found else ""


def _is_port(text: str) -> bool:
    return re.fullmatch("[0-9]{1,5}", text) is not None and 1 <= int(text) <= 65_535


def database_place(url: str) -> str:
    """Where the database of a valid URL is, without user and password: a file's path, or
    postgresql://HOST:PORT/DATABASE."""
    found = _POSTGRES_URL.fullmatch(url)
    if found is None:
        return str(_sqlite_file(url).absolute())
    options = parse_qs(found["query"] or "")

    def option(*names: str) -> str:
        return next((options[name][-1] for name in names if name in options), "")

    # An "@" that should have been escaped: what is before it belongs to the password.
    host = (found["host"] or "").rpartition("@")[2] or found["ipv6"] or option("host", "service")
    port = found["port"] or option("port")
    database = found["database"] or option("database", "dbname")
    return f"postgresql://{host}{port and f':{port}'}/{database}"


def default_files_folder(url: str) -> Path:
    """Where uploaded images are by default: next to the SQLite file, else in the working
    directory."""
    if url.startswith("sqlite"):
        return Path(f"{_sqlite_file(url)}-files")
    return Path("staffbooking-files")


def _sqlite_file(url: str) -> Path:
    return Path(url.partition(":///")[2].partition("?")[0])
