"""Takes screenshots of all pages in all states: `make screenshots`.

They go to `build/screenshots`, with one `index.html` that shows them by page. Arguments are words:
only pages whose title has one of them are taken.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from attrs import frozen
from playwright.sync_api import Browser

from tests.journeys.browser import ALL_VIEWS, View, open_browser, open_page
from tests.journeys.marketplace import Marketplace, run_marketplace
from tests.journeys.page_states import fill_states
from tests.journeys.pages import PAGE_STATES, PageState
from tests.journeys.people import open_person

FOLDER = Path("build/screenshots")
VIEWS = tuple(view for view in ALL_VIEWS if view.has_script)
_THUMBNAIL_WIDTH = 210


@frozen
class Screenshot:
    state: PageState
    view: View

    @property
    def file_name(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", f"{self.state.title} {self.view}".lower()) + ".png"


def take_screenshots(states: Sequence[PageState], folder: Path) -> list[Screenshot]:
    """Take a screenshot of each state in each view, and write their index."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    taken: list[Screenshot] = []
    with (
        tempfile.TemporaryDirectory() as data,
        run_marketplace(Path(data)) as market,
        open_browser() as browser,
    ):
        fill_states(market)
        for view in VIEWS:
            taken += _take_view(browser, market, view, states, folder)
    (folder / "index.html").write_text(_index(states, taken), encoding="utf-8")
    return taken


def _take_view(
    browser: Browser, market: Marketplace, view: View, states: Sequence[PageState], folder: Path
) -> Iterable[Screenshot]:
    for role in dict.fromkeys(state.role for state in states):
        with open_person(browser, market, view, role) as person:
            for state in states:
                if state.role != role:
                    continue
                taken = Screenshot(state, view)
                page = person.page.context.new_page()
                open_page(page, market.path(state.path), state.status)
                if state.prepare is not None:
                    state.prepare(page)
                # A window as high as the page keeps what is fixed to its edges in place.
                height = page.evaluate("document.documentElement.scrollHeight")
                page.set_viewport_size({"width": view.width, "height": height})
                page.screenshot(path=folder / taken.file_name)
                page.close()
                yield taken
            person.watch.take_faults()  # The audit of the pages reports them.
        print(f"{view}, {role}", flush=True)


_STYLE = f"""
body {{ font: 16px/1.4 system-ui; margin: 2rem; background: #eee; color: #222 }}
section div {{ display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start }}
img {{ width: {_THUMBNAIL_WIDTH}px; max-height: 460px; object-fit: cover; object-position: top;
  border: 1px solid #999; display: block }}
figure {{ margin: 0 }}
"""


def _index(states: Sequence[PageState], taken: Sequence[Screenshot]) -> str:
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Pages</title>'
        f"<style>{_STYLE}</style><h1>{len(states)} pages</h1>"
    ]
    for state in states:
        pictures = "".join(_figure(each) for each in taken if each.state is state)
        parts.append(f"<section><h2>{escape(state.title)}</h2><div>{pictures}</div></section>")
    return "\n".join(parts)


def _figure(taken: Screenshot) -> str:
    name, view = escape(taken.file_name), escape(str(taken.view))
    image = f'<img loading="lazy" src="{name}" alt="">'
    return f'<figure><a href="{name}">{image}{view}</a></figure>'


def main(words: Sequence[str]) -> None:
    states = [
        state for state in PAGE_STATES if not words or any(word in state.title for word in words)
    ]
    taken = take_screenshots(states, FOLDER)
    print(f"{len(taken)} pictures: {FOLDER / 'index.html'}")


if __name__ == "__main__":
    main(sys.argv[1:])
