"""Reading HTML pages as people do: their text, their buttons and their forms."""

from __future__ import annotations

import html
import re

from attrs import frozen


def page_text(markup: str) -> str:
    """The text of a page's main part, with single spaces."""
    main = re.search(r"<main.*?</main>", markup, re.DOTALL)
    bare = re.sub(r"<(script|style).*?</\1>", " ", main[0] if main else markup, flags=re.DOTALL)
    bare = re.sub(r"</?time[^>]*>", "", bare)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", bare)).split())


def fault_labels(markup: str) -> dict[str, str]:
    """What the summary of a refused form calls each field, by the field's name."""
    return dict(re.findall(r'<li><a href="#f-(\w+)">([^<]*)</a>', markup))


def field_labels(markup: str) -> dict[str, str]:
    """The label of each field that was refused, by the field's name; of radio buttons, the legend
    of their group."""
    refused = re.findall(r'class="fault-text" id="e-(\w+)"', markup)
    labels = re.findall(r'<label for="f-(\w+)">([^<]*)</label>', markup)
    groups = re.findall(r'<legend>([^<]*)</legend>\s*<span[^>]*><label><input id="f-(\w+)"', markup)
    found = dict(labels) | {name: legend for legend, name in groups}
    return {name: found[name] for name in refused}


@frozen
class Form:
    """A form: where it goes, its hidden fields, and its buttons with a name."""

    action: str
    fields: dict[str, str]
    buttons: frozenset[tuple[str, str]]


def page_forms(markup: str) -> list[Form]:
    """The forms of a page's main part; a form without an action goes to an empty one."""
    main = re.search(r"<main.*?</main>", markup, re.DOTALL)
    forms = re.findall(r"<form([^>]*)>(.*?)</form>", main[0] if main else markup, re.DOTALL)
    return [
        Form(
            (re.findall(r'action="([^"]*)"', head) or [""])[0],
            dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', body)),
            frozenset(re.findall(r'<button[^>]*name="(\w+)" value="(\w+)"', body)),
        )
        for head, body in forms
    ]
