"""Addresses, hosts, URLs, answers and redirects: what must be refused, and what must pass."""

from __future__ import annotations

import tomllib
from pathlib import Path

Groups = dict[str, dict[str, str]]
"""By the name of a group: its vectors, each with what is said of it."""


def corpus(name: str) -> Groups:
    text = Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")
    groups: Groups = tomllib.loads(text)
    return groups


def size(*corpora: Groups) -> int:
    return sum(len(group) for groups in corpora for group in groups.values())


ADDRESSES = corpus("addresses")
HOSTS = corpus("hosts")
URLS = corpus("urls")
ANSWERS = corpus("answers")
REDIRECTS = corpus("redirects")
PUBLIC = corpus("public")

NAMED = "93.184.215.14"
"""What the names among the public ones stand for."""


def as_host(address: str) -> str:
    """As it stands in a URL."""
    return f"[{address}]" if ":" in address else address
