"""Addresses, hosts, URLs, answers and redirects: what must be refused, and what must pass."""

from __future__ import annotations

import tomllib
from pathlib import Path

CorpusGroups = dict[str, dict[str, str]]
"""By the name of a group: its vectors, each with what is said of it."""


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
"""What the names among the public ones stand for."""


def as_url_host(address: str) -> str:
    """As it stands in a URL."""
    return f"[{address}]" if ":" in address else address
