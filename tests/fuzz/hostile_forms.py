"""The forms of pages, found by following links as a browser's user could, and hostile changes to
what they send."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from html.parser import HTMLParser
from urllib.parse import quote_from_bytes, urldefrag, urlsplit

import httpx
from attrs import define, evolve, field, frozen

Fields = tuple[tuple[str, str], ...]

HOSTILE_TEXTS: tuple[bytes, ...] = (
    b"",
    b"a\0b",
    b"\xff\xfe\xed\xa0\x80",
    b"9" * 5_000,
    b"9" * 30,
    b"-1",
    "\u0661\u00b2".encode(),
    "\U0001f600".encode() * 5_000,
    "a\u202e\x1b[31m\u2028b".encode(),
    b"a\r\nSet-Cookie: x=1",
    b"</textarea><hostile->\"'",
    b"{{ 7 * 7 }} %(x)s {x}",
    b"//other.test/\\",
    b"0001-01-01",
    b"9999-12-31",
    b"none-of-these",
    b"x" * 70_000,
)
"""Values for any field, before their encoding."""

HOSTILE_BODIES: tuple[bytes, ...] = (
    b"",
    b"\0",
    b"\xff\xfe=\xff",
    b"&&==&=&%",
    b"%zz=%zz&%00=%00",
    b'{"reason": null}',
    b"reason=x&" * 3_000,
    b"&".join(b"from-%d-%d=09:00" % (day, row) for day in range(7) for row in range(99)),
)
"""Bodies that are no form of any page."""

MARKUP = "<hostile->"
"""What no page may repeat as it is."""


@frozen
class PageForm:
    """A form that is sent by POST: where to, and the fields as the page fills them."""

    action: str
    fields: Fields

    def body(self, csrf: str, changed: str | None = None, value: bytes = b"") -> bytes:
        """What it sends, with a field changed."""
        pairs = [(name, text.encode()) for name, text in self.fields]
        pairs = [(name, value if name == changed else text) for name, text in pairs]
        return encode_form([("csrf", csrf.encode()), *pairs])

    def twice(self, csrf: str) -> bytes:
        """What it sends with all its fields twice."""
        pairs = [(name, text.encode()) for name, text in self.fields]
        return encode_form([("csrf", csrf.encode()), *pairs, *pairs])

    def names(self) -> Sequence[str]:
        return sorted({name for name, _ in self.fields})


def encode_form(pairs: Sequence[tuple[str, bytes]]) -> bytes:
    return b"&".join(
        b"%s=%s" % (quote_from_bytes(name.encode()).encode(), quote_from_bytes(value).encode())
        for name, value in pairs
    )


@define
class _FormParser(HTMLParser):
    """Collects the links of a page, and its forms that are sent by POST."""

    links: list[str] = field(factory=list)
    forms: list[PageForm] = field(factory=list)
    _form: PageForm | None = None
    _select: str = ""

    def __attrs_pre_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "form":
            is_sent = given.get("method", "").lower() == "post"
            self._form = PageForm(given.get("action", ""), ()) if is_sent else None
        elif tag == "select":
            self._select = given.get("name", "")
        elif tag == "option" and self._select:
            if "selected" in given:
                self._add(self._select, given.get("value", ""))
        elif tag in ("input", "textarea", "button") and given.get("name"):
            is_choice = given.get("type") in ("checkbox", "radio")
            value = given.get("value", "on" if is_choice else "")
            self._add(given["name"], value, is_alternative=is_choice and "checked" not in given)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form" and self._form is not None:
            self.forms.append(self._form)
            self._form = None
        elif tag == "select":
            if self._form and self._select not in self._form.names():
                self._add(self._select, "")
            self._select = ""

    def _add(self, name: str, value: str, *, is_alternative: bool = False) -> None:
        form = self._form
        if form is None or name == "csrf" or (is_alternative and name in form.names()):
            return
        self._form = evolve(form, fields=(*form.fields, (name, value)))


def parse_page(text: str) -> tuple[Sequence[str], Sequence[PageForm]]:
    """The links and the forms of a page."""
    parser = _FormParser()
    parser.feed(text)
    parser.close()
    return parser.links, parser.forms


_NUMBER = re.compile(r"[0-9]+")
_NOT_FOLLOWED = re.compile(r"/static/|/api/|/docs|/sitemap|.*\.(ics|csv|json)")


async def find_forms(client: httpx.AsyncClient, starts: Sequence[str]) -> dict[str, PageForm]:
    """The forms of all pages that links lead to, one for each address and set of fields, with
    numbers in addresses left out of account."""
    waiting, seen = [*starts], set[str]()
    found: dict[str, PageForm] = {}
    for path in waiting:  # `waiting` grows meanwhile
        kind = _kind_of(path)
        if kind in seen or _NOT_FOLLOWED.match(path):
            continue
        page = await client.get(path, headers={"accept": "text/html"}, follow_redirects=True)
        assert page.status_code < 500, (path, page.text)
        if page.status_code == 200:
            seen.add(kind)
        links, forms = parse_page(page.text)
        for form in forms:
            action = form.action or page.url.path
            shape = f"{_NUMBER.sub('N', urlsplit(action).path)} {form.names()}"
            found.setdefault(shape, evolve(form, action=action))
        for link in links:
            address = urlsplit(urldefrag(link).url)
            if not address.netloc and address.path.startswith("/"):
                waiting.append(address.geturl())
    return found


def _kind_of(path: str) -> str:
    """The path without numbers and the names of its query, with the list that it shows."""
    address = urlsplit(path)
    parts = address.query.split("&")
    names = sorted(each if each.startswith("show=") else each.partition("=")[0] for each in parts)
    return f"{_NUMBER.sub('N', address.path)}?{names}"


def hostile_bodies(form: PageForm, csrf: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """What is changed in a form, and a function that makes its body: to encode all of them takes
    far longer than to send a few."""
    for name in form.names():
        for value in HOSTILE_TEXTS:
            yield f"{name}={value[:20]!r}", partial(form.body, csrf, name, value)
        rest = evolve(form, fields=tuple(pair for pair in form.fields if pair[0] != name))
        yield f"without {name}", partial(rest.body, csrf)
    for value in HOSTILE_TEXTS:
        every = [("csrf", csrf.encode()), *((name, value) for name in form.names())]
        yield f"all {value[:20]!r}", partial(encode_form, every)
    yield "twice", partial(form.twice, csrf)
    yield "empty", partial(encode_form, [("csrf", csrf.encode())])
