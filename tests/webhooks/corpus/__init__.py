"""Addresses, hosts, URLs, answers and redirects that must be refused or accepted."""

from __future__ import annotations

import tomllib
from pathlib import Path

CorpusGroups = dict[str, dict[str, str]]
"""Vectors by group, each with a note; for public ones the address and port."""


def load_corpus(name: str) -> CorpusGroups:
    text = Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")
    groups: CorpusGroups = tomllib.loads(text)
    return groups


def count_cases(*corpora: CorpusGroups) -> int:
    return sum(len(group) for groups in corpora for group in groups.values())


ADDRESSES = load_corpus("addresses")
HOSTS = load_corpus("hosts")
URLS = load_corpus("urls")
ANSWERS = load_corpus("answers")
REDIRECTS = load_corpus("redirects")
PUBLIC = load_corpus("public")

NAMED_ADDRESSES = "93.184.215.14"
"""The address to which the public names resolve in tests."""


def as_url_host(address: str) -> str:
    """The address as the host of a URL."""
    return f"[{address}]" if ":" in address else address
