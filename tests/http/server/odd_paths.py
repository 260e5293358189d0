"""Requests with usual and unusual spellings of every path, and the compared parts of the responses.

`answers_to_odd_paths.json` holds the recorded responses. It lists each different
response once; for each path, caller and spelling it has the index of the response to each method.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeAlias

import httpx

from tests.http.deployment import HttpDeployment

FIXTURE = Path(__file__).with_name("answers_to_odd_paths.json")

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PURGE")
CALLERS = ("anonymous", "customer")
SPELLINGS = (
    "plain",
    "double slash before",
    "double slash within",
    "slash after",
    "unknown prefix",
)
COMPARED_HEADERS = (
    "allow",
    "cache-control",
    "content-security-policy",
    "content-type",
    "location",
    "referrer-policy",
    "retry-after",
    "set-cookie",
    "strict-transport-security",
    "www-authenticate",
    "x-content-type-options",
)

Answer: TypeAlias = dict[str, Any]


def spell(path: str, spelling: str) -> str:
    """A path in one of the spellings, with 1 for every parameter."""
    path = re.sub(r"\{\w+\}", "1", path)
    match spelling:
        case "plain":
            return path
        case "double slash before":
            return f"/{path}"
        case "double slash within":
            doubled = path.replace("/", "//")[1:]
            return doubled if path.count("/") > 1 else f"{path[:-1]}//{path[-1]}"
        case "slash after":
            return f"{path}/"
    return f"/nowhere{path}"


async def ask_all(world: HttpDeployment, path: str) -> AsyncIterator[tuple[str, str, list[Answer]]]:
    """Yields caller, spelling, and the responses to each method."""
    for caller in CALLERS:
        for spelling in SPELLINGS:
            answers = []
            for method in METHODS:
                client = (
                    world.client()
                    if caller == "anonymous"
                    else await world.signed_in_client(world.customer.id)
                )
                url = httpx.URL("http://127.0.0.1:8000").copy_with(
                    raw_path=spell(path, spelling).encode()
                )
                answers.append(describe(await client.request(method, url)))
            yield caller, spelling, answers


def describe(answer: httpx.Response) -> Answer:
    """The compared parts of a response: status, headers, and the kind of the body."""
    headers = {
        name: _mask(value)
        for name, value in answer.headers.multi_items()
        if name in COMPARED_HEADERS
    }
    if "x-ratelimit-limit" in answer.headers:
        headers["x-ratelimit"] = "present"
    if (length := answer.headers.get("content-length")) is not None:
        headers["content-length"] = "0" if length == "0" else "some"
    return {"status": answer.status_code, "headers": headers, "body": _describe_body(answer)}


def _describe_body(answer: httpx.Response) -> str:
    """The code of an error, the fields of another object, or `text` or `none`."""
    if not answer.content:
        return "none"
    if answer.headers.get("content-type") != "application/json":
        return "text"
    document = json.loads(answer.content)
    return document.get("code") or " ".join(sorted(document))


def _mask(value: str) -> str:
    """A header's value without what varies by run or by style sheet."""
    return re.sub(r"(sha256-|connect\.sid=)[\w+/=.-]+", r"\1…", value)
