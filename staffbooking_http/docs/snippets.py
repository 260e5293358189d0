"""Each call of the document as a line of curl and as a piece of Python, with its example values."""

import json
import shlex
from typing import Any
from urllib.parse import quote, urlencode

from attrs import frozen

from staffbooking_http.docs.examples import example_of
from staffbooking_http.docs.references import JsonObject

CLIENT_METHODS = {
    "searchCompanions": "search",
    "getCompanion": "get_companion",
    "getAvailability": "get_availability",
    "listServiceTypes": "get_service_types",
    "listUserReviews": "get_reviews",
    "quoteBooking": "quote",
    "createBooking": "book",
    "getBooking": "get_booking",
    "listBookings": "get_bookings",
    "createWebhook": "create_webhook",
    "listWebhooks": "get_webhooks",
    "updateWebhook": "update_webhook",
    "deleteWebhook": "delete_webhook",
    "rotateWebhookSecret": "rotate_webhook_secret",
    "activateWebhookSecret": "activate_webhook_secret",
    "tryWebhook": "try_webhook",
    "listDeliveries": "get_deliveries",
    "redeliver": "redeliver",
    "listEvents": "get_events",
}
"""The methods of `staffbooking_http.client` by the operations that they call."""

_LISTS = {"search", "get_bookings", "get_deliveries", "get_events"}


@frozen
class CallSnippets:
    """One call, as the page for developers shows it."""

    path: str
    method: str
    operation: JsonObject
    curl: str
    python: str
    body: str
    """An example of the JSON body; empty without one."""
    answer: str
    """An example of a successful answer; empty where it is no JSON."""

    @property
    def is_by_key(self) -> bool:
        """Whether an API key may make this call."""
        return {"key": []} in self.operation["security"]

    @property
    def is_open(self) -> bool:
        """Whether anybody may make this call."""
        return not self.operation["security"]


def start_snippets(base_url: str) -> dict[str, str]:
    """What the pieces of curl and Python of all calls begin with: their variables."""
    return {
        "curl": f"BASE={base_url}\nKEY=ps_…\n# With a session, from the answer of /auth/login:\n"
        "SESSION=… CSRF=…",
        "python": "# pip install 'staffbooking[client]'\nimport httpx\n"
        "from staffbooking_http.client import Client\n\n"
        f'base, key = "{base_url}", "ps_…"\n'
        "client = Client(base, key)\n"
        "# With a session, from the answer of /auth/login:\n"
        'session, csrf = "…", "…"\n'
        'path = "portrait.jpg"',
    }


def general_answers(document: JsonObject) -> dict[str, str]:
    """What is said once of the errors of all calls, by their statuses."""
    shared = document["components"]["responses"]
    return {
        "4XX": shared["Refusal"]["description"],
        "5XX": shared["Failure"]["description"],
    }


def describe_calls(document: JsonObject) -> dict[str, list[CallSnippets]]:
    """The calls of a plain document by their tags."""
    calls: dict[str, list[CallSnippets]] = {tag["name"]: [] for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            calls[operation["tags"][0]].append(_describe(document, path, method, operation))
    return calls


def _describe(document: JsonObject, path: str, method: str, operation: JsonObject) -> CallSnippets:
    given = _Given(document, path, operation)
    return CallSnippets(
        path=path,
        method=method.upper(),
        operation=operation,
        curl=_curl(given, method.upper()),
        python=_python(given, method),
        body="" if given.body is None else _pretty(given.body),
        answer=_answer(document, operation),
    )


class _Given:
    """The example values of a call."""

    def __init__(self, document: JsonObject, path: str, operation: JsonObject) -> None:
        self.operation = operation
        parameters = operation.get("parameters", [])
        self.places = {
            one["name"]: example_of(document, one["schema"])
            for one in parameters
            if one["in"] == "path"
        }
        self.query = {
            one["name"]: example_of(document, one["schema"])
            for one in parameters
            if one["in"] == "query" and one.get("required")
        }
        self.takes_key = any(one["name"] == "Idempotency-Key" for one in parameters)
        content = operation.get("requestBody", {}).get("content", {})
        self.upload = next((kind for kind in content if kind != "application/json"), "")
        schema = content.get("application/json", {}).get("schema")
        self.body = None if schema is None else example_of(document, schema)
        self.path = path
        for name, value in self.places.items():
            self.path = self.path.replace(f"{{{name}}}", quote(str(value)))
        if self.query:
            self.path += f"?{urlencode(self.query)}"

    @property
    def credential(self) -> str:
        """`key`, `session`, `csrf` (a session that may change something) or nothing."""
        security = self.operation["security"]
        if not security:
            return ""
        return "key" if {"key": []} in security else "csrf" if "csrf" in security[0] else "session"


def _curl(given: _Given, method: str) -> str:
    words = ["curl", f'"$BASE{given.path}"']
    if method != "GET":
        words[1:1] = ["-X", method]
    match given.credential:
        case "key":
            words += ["-H", '"Authorization: Bearer $KEY"']
        case "session":
            words += ["-b", '"connect.sid=$SESSION"']
        case "csrf":
            words += ["-b", '"connect.sid=$SESSION"', "-H", '"X-CSRF-Token: $CSRF"']
    if given.takes_key:
        words += ["-H", "'Idempotency-Key: order-4711'"]
    if given.upload == "multipart/form-data":
        words += ["-F", "file=@FILE"]
    elif given.upload:
        words += ["-H", f"'Content-Type: {given.upload}'", "--data-binary", "@FILE"]
    elif given.body is not None:
        body = json.dumps(given.body, ensure_ascii=False)
        words += ["-H", "'Content-Type: application/json'", "-d", shlex.quote(body)]
    return _wrapped(words)


def _wrapped(words: list[str]) -> str:
    """The words with each option on a line of its own."""
    lines = [words[0]]
    for word in words[1:]:
        if word.startswith("-") and word != "-X":
            lines.append(f"  {word}")
        else:
            lines[-1] += f" {word}"
    return " \\\n".join(lines)


def _python(given: _Given, method: str) -> str:
    name = CLIENT_METHODS.get(given.operation["operationId"])
    if name is None:
        return _httpx(given, method)
    values = {**given.query, **(given.body or {})}
    arguments = [_literal(value) for value in given.places.values()]
    arguments += [f"{key}={_literal(value)}" for key, value in values.items() if value is not None]
    call = f"client.{name}({', '.join(arguments)})"
    if len(call) > 72:
        lines = "".join(f"    {argument},\n" for argument in arguments)
        call = f"client.{name}(\n{lines})"
    return f"for each in {call}:\n    print(each)" if name in _LISTS else f"answer = {call}"


def _httpx(given: _Given, method: str) -> str:
    """The call by httpx: the client calls by API key alone."""
    arguments = [f'f"{{base}}{given.path}"']
    match given.credential:
        case "key":
            arguments.append('headers={"Authorization": f"Bearer {key}"}')
        case "session":
            arguments.append('cookies={"connect.sid": session}')
        case "csrf":
            arguments += ['cookies={"connect.sid": session}', 'headers={"X-CSRF-Token": csrf}']
    if given.upload == "multipart/form-data":
        arguments.append('files={"file": open(path, "rb")}')
    elif given.upload:
        arguments.append('content=open(path, "rb")')
    elif given.body is not None:
        arguments.append(f"json={_literal(given.body)}")
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return f"answer = httpx.{method}(\n{lines})"


def _literal(value: Any) -> str:
    """The value as Python, with texts in double quotes."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case dict():
            return f"{{{', '.join(f'{_literal(k)}: {_literal(v)}' for k, v in value.items())}}}"
        case list():
            return f"[{', '.join(map(_literal, value))}]"
    return repr(value)


def _answer(document: JsonObject, operation: JsonObject) -> str:
    for status, reply in operation["responses"].items():
        content: Any = reply.get("content", {}).get("application/json")
        if status.startswith("2") and content is not None:
            return _pretty(example_of(document, content["schema"]))
    return ""


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
