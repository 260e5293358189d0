"""The audit and the watch see each planted fault, and pass a page without any."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.journeys.browser import DESKTOP, PHONE, BrowserWatch, View, open_context
from tests.journeys.page_audit import PageAudit

pytestmark = pytest.mark.journeys

_BASE_URL = "http://pages.test"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; img-src data:"
_SENTENCE = "This sentence has enough words to need more than one line in a narrow column."
_GOOD = f"<h1>Welcome</h1><p>{_SENTENCE}</p>"


def _document(main: str, head: str = "<title>A page</title>", language: str = "en") -> str:
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width">{head}'
        f'<link rel="icon" href="data:,"></head><body><main>{main}</main></body></html>'
    )


def _audit(browser: Browser, view: View, npm_folder: Path, document: str, status: int = 200) -> str:
    """The faults of a document under a strict policy."""

    def answer(route: Route) -> None:
        is_page = route.request.url == f"{_BASE_URL}/page"
        route.fulfill(
            status=status if is_page else 404,
            headers={"content-type": "text/html", "content-security-policy": _POLICY},
            body=document if is_page else "",
        )

    watch = BrowserWatch()
    with open_context(browser, view, _BASE_URL) as context:
        watch.follow(context)
        context.route("**/*", answer)
        page: Page = context.new_page()
        audit = PageAudit(page, npm_folder)
        page.goto("/page")
        return "\n".join([*audit.faults(), *watch.take_faults()])


@pytest.mark.parametrize("look", [PHONE, DESKTOP], ids=str)
def test_a_good_page_passes(browser: Browser, npm_folder: Path, look: View) -> None:
    """A page without faults passes, with and without scripts."""
    assert _audit(browser, look, npm_folder, _document(_GOOD)) == ""


@pytest.mark.parametrize("look", [PHONE, DESKTOP], ids=str)
@pytest.mark.parametrize(
    ("document", "fault"),
    [
        (_document("<p>Welcome</p>"), "0 h1"),
        (_document(f"{_GOOD}<h1>Again</h1>"), "2 h1"),
        (_document(_GOOD, head=""), "no title"),
        (_document(_GOOD, language=""), "no language"),
        (_document(f'{_GOOD}<div style="width: 2000px">Wide</div>'), "wider than the window"),
        (_document(f'{_GOOD}<p style="width: 3rem">{_SENTENCE}</p>'), "of few characters"),
        (_document(f'{_GOOD}<p style="color: #aaa; background: #fff">Pale</p>'), "color-contrast"),
        (_document(f"{_GOOD}<input>"), "axe label"),
        (
            _document(
                f'{_GOOD}<nav><a style="font-size: 6px" href="/a">a</a><br>'
                '<a style="font-size: 6px" href="/b">b</a></nav>'
            ),
            "target-size",
        ),
        (_document(f'{_GOOD}<img src="/photo" alt="">'), "Content Security Policy"),
        (_document(f"{_GOOD}<!--{'-' * 110_000}-->"), "bytes on the wire"),
    ],
    ids=lambda given: None if given.startswith("<") else given,
)
def test_a_planted_fault_is_seen(
    browser: Browser, npm_folder: Path, look: View, document: str, fault: str
) -> None:
    """Each kind of fault is reported, with and without scripts."""
    assert fault in _audit(browser, look, npm_folder, document)


def test_a_broken_script_is_seen(browser: Browser, npm_folder: Path) -> None:
    """A script that the policy refuses is reported."""
    document = _document(f"{_GOOD}<script>oops()</script>")
    assert "Content Security Policy" in _audit(browser, DESKTOP, npm_folder, document)


def test_statuses_of_faults_are_seen(browser: Browser, npm_folder: Path) -> None:
    """A page with the status 500 is reported, one with 404 isn't."""
    assert "status 500" in _audit(browser, PHONE, npm_folder, _document(_GOOD), 500)
    assert _audit(browser, PHONE, npm_folder, _document(_GOOD), 404) == ""
