"""The catalogues of languages against the messages of the pages.

    python -m tests.support.catalogues missing   # what has no translation yet
    python -m tests.support.catalogues update    # adds it to the catalogues, and drops what is gone

Messages are in templates (`_("…")`, `pgettext`, `ngettext`, `{% trans %}`), and in Python:

- arguments of `gettext`, `ngettext`, `translate` and `_`;
- constants whose name ends with TEXT(S), LABEL(S), SENTENCE(S), DESCRIPTION(S) or TITLE(S): the
  values of mappings, the last elements of pairs;
- labels of `NavigationItem`, titles of `_Step`, texts of `_MoneySentence` and `_StepText`, and the
  sentences of the guidance of bookings;
- the messages of errors, as pages tell them, and of the checks of values that fields share; they
  are arguments of the errors, or constants and mappings of the module that are.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from io import BytesIO
from pathlib import Path

from babel.messages import Catalog, Message as Entry, pofile
from babel.messages.extract import extract

from staffbooking_core import value_checks
from staffbooking_core.domain.accounts.users import Language
from staffbooking_core.domain.bookings import guidance
from staffbooking_core.domain.webhooks import url_safety
from staffbooking_http.pages import faults

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "staffbooking_http" / "pages"
CATALOGUES = PAGES / "catalogues"
TRANSLATED = tuple(str(language) for language in Language if language is not Language.ENGLISH)
Message = str | tuple[str, str]
"""A message, or its singular and plural. A message with a context has it in front, as compiled
catalogues do: `context\\4message`."""

_KEYWORDS = {"_": None, "gettext": None, "ngettext": (1, 2), "pgettext": ((1, "c"), 2)}
_TEMPLATE_OPTIONS = {"trimmed": "false", "trim_blocks": "true", "lstrip_blocks": "true"}
_CONSTANT = re.compile(r"_?([A-Z_]+_)?(TEXT|LABEL|SENTENCE|DESCRIPTION|TITLE)S?")
_MESSAGE_PLACE = {
    "RuleBroken": 1,
    "Forbidden": 1,
    "Unauthenticated": 1,
    "CompanionUnavailable": 1,
    "HttpError": 2,
    "_refuse": 1,
    "check_csrf": 2,
}
"""Where the message stands among the arguments of each error, and of what raises one."""
_FIELD_ERRORS = {"invalid_field", "FieldError"}
_FAULT_RULES = faults._RULES + faults._TRANSLATED_RULES
_VALUE_CHECKS = (Path(value_checks.__file__), Path(url_safety.__file__))
_CONTEXT_END = "\4"
_LETTER = re.compile(r"[^\W\d_]")


@cache
def messages() -> Mapping[Message, set[str]]:
    """All messages, each with the files that have it, relative to the repository. They are read
    once a process, which takes seconds."""
    found: dict[Message, set[str]] = {}
    for path, message in _all_messages():
        ids = (message,) if isinstance(message, str) else message
        if any(map(_LETTER.search, ids)):
            found.setdefault(message, set()).add(str(path.relative_to(ROOT)))
    plurals = {message[0] for message in found if isinstance(message, tuple)}
    return {message: files for message, files in found.items() if message not in plurals}


def _all_messages() -> Iterator[tuple[Path, Message]]:
    for path in sorted((PAGES / "templates").rglob("*.html")):
        yield from ((path, message) for message in _template_messages(path))
    for path in sorted(PAGES.rglob("*.py")):
        yield from ((path, message) for message in _python_messages(_parse(path)))
    for family in ("staffbooking_core", "staffbooking_http/api"):
        for path in sorted((ROOT / family).rglob("*.py")):
            yield from ((path, message) for message in _error_messages(_parse(path)))
    for path in _VALUE_CHECKS:
        yield from ((path, message) for message in _check_messages(_parse(path)))
    rows = (*guidance._TABLE.values(), guidance._ANSWERED)
    cells = [cell for row in rows for cell in row.values()] + [guidance._TOLD]
    for cell in cells:
        for sentence in filter(None, (cell.sentence, cell.late_sentence)):
            yield Path(guidance.__file__), sentence


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _template_messages(path: Path) -> Iterator[Message]:
    with path.open("rb") as source:
        found = list(extract("jinja2.ext:babel_extract", source, _KEYWORDS, (), _TEMPLATE_OPTIONS))
    for _, message, _, context in found:
        if isinstance(message, str):
            yield f"{context}{_CONTEXT_END}{message}" if context else message
        elif message[0] and message[1]:
            yield message[0], message[1]


def _python_messages(tree: ast.Module) -> Iterator[Message]:
    for name, value in _constants(tree):
        if _CONSTANT.fullmatch(name):
            yield from _texts_of(value)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=arguments):
                texts = [_text(argument) for argument in arguments]
                match name, texts:
                    case (("gettext" | "translate" | "_"), [str(text), *_]):
                        yield text
                    case "ngettext", [str(singular), str(plural), *_]:
                        yield singular, plural
                    case "NavigationItem", [_, str(label), *_]:
                        yield label
                    case (("_Step" | "_MoneySentence"), [str(title), *_]):
                        yield title
                    case "_StepText", [str(title), str(text), *further]:
                        yield from (title, text, *filter(None, further[1:]))
    yield from _error_messages(tree)


def _texts_of(value: ast.expr) -> Iterator[str]:
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Dict(values=values):
            for each in values:
                yield from _texts_of(each)
        case ast.Tuple(elts=[*_, ast.Tuple() as last] as elements) if last:
            for each in elements:
                if isinstance(each, ast.Tuple):
                    yield from _texts_of(each.elts[-1])
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for each in elements:
                yield from _texts_of(each)
        case ast.Call(args=[only]) | ast.Starred(value=only):
            yield from _texts_of(only)


def _error_messages(tree: ast.Module) -> Iterator[str]:
    constants = dict(_constants(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="NotFound"), args=[ast.Constant(value=str(thing))]):
                yield f"{thing} not found"
            case ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"),
                args=[ast.Constant(value=str(sentence))]
                | [ast.Constant(), ast.Constant(value=str(sentence))],
            ) if sentence[:1].isupper():
                yield sentence  # Of a class of its own, such as the end of a session.
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in _MESSAGE_PLACE:
                if len(arguments) > (place := _MESSAGE_PLACE[name]):
                    yield from _given_texts(arguments[place], constants)
            case ast.Call(func=ast.Name(id=name), args=[_, fault, *_]) if name in _FIELD_ERRORS:
                for text in _given_texts(fault, constants):
                    yield from _fault_messages(text)


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The names and the values of a module's constants."""
    for statement in tree.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                yield name, value


def _given_texts(node: ast.expr, constants: dict[str, ast.expr]) -> Iterator[str]:
    """The texts that an argument may be: itself, a constant's, or those of a constant mapping."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name) if constant := _text(constants.get(name, node)):
            yield constant
        case ast.Subscript(value=ast.Name(id=name)):
            match constants.get(name):
                case ast.Dict() as mapping:
                    yield from _texts_of(mapping)


def _check_messages(tree: ast.Module) -> Iterator[str]:
    """The faults of values that a module raises as ValueError."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="ValueError"), args=[ast.Constant(value=str(fault))]):
                yield from _fault_messages(fault)


def _fault_messages(fault: str) -> Iterator[str]:
    """The sentence of a fault that has none in the rules of forms."""
    if not any(pattern.fullmatch(fault) for pattern, _ in _FAULT_RULES):
        yield faults.english_fault(fault)


def _text(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
    return None


# Catalogues -------------------------------------------------------------------------------


def read(language: str) -> Catalog:
    with (CATALOGUES / f"{language}.po").open("rb") as source:
        return pofile.read_po(source, locale=language)


def is_translated(catalogue: Catalog, message: Message) -> bool:
    entry = _entry(catalogue, message)
    if entry is None or entry.fuzzy or entry.pluralizable is isinstance(message, str):
        return False
    texts = entry.string if isinstance(entry.string, list | tuple) else [entry.string]
    return all(texts)


def _entry(catalogue: Catalog, message: Message) -> Entry | None:
    context, _, id = _first_id(message).rpartition(_CONTEXT_END)
    return catalogue.get(id, context or None)


def missing(language: str) -> list[Message]:
    """The messages without a translation, sorted."""
    catalogue = read(language)
    return sorted(
        (each for each in messages() if not is_translated(catalogue, each)), key=_first_id
    )


def _first_id(message: Message) -> str:
    return message if isinstance(message, str) else message[0]


def write(language: str, texts: dict[str, str | tuple[str, ...]]) -> None:
    """Write a catalogue of all messages: their given texts, else those that it has."""
    old = read(language)
    new = Catalog(
        locale=old.locale, project="staffbooking", charset="utf-8", header_comment=_HEADER
    )
    new.mime_headers = [
        (name, value)
        for name, value in old.mime_headers
        if name in ("Language", "Plural-Forms", "Content-Type", "Content-Transfer-Encoding")
    ]
    for message in sorted(messages(), key=_first_id):
        known = _entry(old, message)
        string = known.string if known is not None and is_translated(old, message) else ""
        context, _, first = _first_id(message).rpartition(_CONTEXT_END)
        ids = first if isinstance(message, str) else message
        new.add(ids, string=texts.get(_first_id(message), string), context=context or None)
    target = BytesIO()
    pofile.write_po(target, new, width=100, omit_header=True, sort_output=True)
    (CATALOGUES / f"{language}.po").write_bytes(_header_entry(language) + target.getvalue())


_HEADER = "# Texts of the pages. Messages are sorted; see tests/support/catalogues.py."


def _header_entry(language: str) -> bytes:
    lines = (
        "Content-Type: text/plain; charset=utf-8",
        "Content-Transfer-Encoding: 8bit",
        f"Language: {language}",
        "Plural-Forms: nplurals=2; plural=(n != 1);",
    )
    entry = "".join(f'"{line}\\n"\n' for line in lines)
    return f'{_HEADER}\nmsgid ""\nmsgstr ""\n{entry}\n'.encode()


def main(command: str) -> int:
    """Print what is missing (`missing`), or add it to the catalogues (`update`)."""
    counts = 0
    for language in TRANSLATED:
        if command == "update":
            write(language, {})
        for message in missing(language):
            counts += 1
            print(f"{language}: {message!r}")
    return 1 if counts and command == "missing" else 0


if __name__ == "__main__":
    if sys.argv[1:] not in (["missing"], ["update"]):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
