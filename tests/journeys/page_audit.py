"""The audit of one state of a page: accessibility, layout, reports, weight, stability.

It looks at the page that people get: axe runs in an isolated world of the page, to which neither
the page's policy nor the page's globals apply, and which works where scripts are switched off.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field
from playwright.sync_api import CDPSession, Page

MAX_WEIGHT_BYTES = 100_000
"""On the wire, without photos."""
MAX_LAYOUT_SHIFT = 0.1
MIN_COLUMN_CHARACTERS = 12
_AXE_RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
_MAX_PLACES_SHOWN = 3

_TIMERS = (
    "self.setTimeout = (work, delay, ...given) => requestAnimationFrame(() => work(...given));"
)
"""Timers don't fire where scripts are switched off; frames do."""

_AXE_RUN = """
axe.run(document, {preload: false, resultTypes: ["violations"], runOnly: %s}).then(found =>
  found.violations.map(each => ({
    id: each.id,
    help: each.help,
    targets: each.nodes.map(node => node.target.join(" ")),
  })))
"""

_STRUCTURE = """
(() => ({
  headings: document.querySelectorAll("h1").length,
  title: document.title.trim(),
  language: document.documentElement.lang,
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
}))()
"""

_NARROW_COLUMNS = """
(() => {
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.data.trim().replace(/\\s+/g, " ");
    if (text.length <= 2 * LEAST) continue;
    let block = texts.currentNode.parentElement;
    if (block.closest("script, style, noscript") || !block.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    const lines = [...range.getClientRects()].filter(line => line.width > 1);
    if (lines.length < 2) continue;
    const character = lines.reduce((sum, line) => sum + line.width, 0) / text.length;
    while (getComputedStyle(block).display.startsWith("inline")) block = block.parentElement;
    const style = getComputedStyle(block);
    const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
    const column = block.clientWidth - padding;
    if (column / character < LEAST) found.push(`${Math.floor(column / character)}: ${text}`);
  }
  return found;
})()
""".replace("LEAST", str(MIN_COLUMN_CHARACTERS))


@cache
def _axe_source(folder: Path) -> str:
    return (folder / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


@define(slots=False)  # Playwright notes its handlers on their object.
class PageAudit:
    """Measures a page from before it is loaded; `faults` audits what is shown now."""

    page: Page
    npm_folder: Path
    _session: CDPSession = field(init=False)
    _shift: float = 0.0
    _photos: set[str] = field(factory=set)
    _bytes_by_request: dict[str, int] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        session = self._session = self.page.context.new_cdp_session(self.page)
        session.on("PerformanceTimeline.timelineEventAdded", self._on_timeline)
        session.on("Network.responseReceived", self._on_response)
        session.on("Network.loadingFinished", self._on_loaded)
        session.send("PerformanceTimeline.enable", {"eventTypes": ["layout-shift"]})
        session.send("Network.enable")
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})

    def start(self) -> None:
        """Forget what was measured before, so that the next load alone counts."""
        self._shift = 0.0
        self._photos.clear()
        self._bytes_by_request.clear()

    def faults(self) -> list[str]:
        """What is wrong with the page in its present state, one line each."""
        # A form that was sent has brought a page whose style sheet may not be there yet.
        self.page.wait_for_load_state("load")
        world = self._open_world()
        structure = self._evaluate(_STRUCTURE, world)
        return [
            *_structure_faults(structure),
            *_narrow_column_faults(self._evaluate(_NARROW_COLUMNS, world)),
            *self._axe_faults(world),
            *self._measured_faults(),
        ]

    def _axe_faults(self, world: int) -> Iterator[str]:
        self._evaluate(f"{_TIMERS}{_axe_source(self.npm_folder)};0", world)
        for found in self._evaluate(_AXE_RUN % json.dumps(_AXE_RULES), world):
            targets = found["targets"]
            shown = ", ".join(targets[:_MAX_PLACES_SHOWN])
            yield f"axe {found['id']}, {found['help']}: {len(targets)}, such as {shown}"

    def _measured_faults(self) -> Iterator[str]:
        if self._shift >= MAX_LAYOUT_SHIFT:
            yield f"layout shift of {self._shift:.3f}"
        weight = self.weight_bytes()
        if weight > MAX_WEIGHT_BYTES:
            yield f"{weight:,} bytes on the wire"

    def weight_bytes(self) -> int:
        """The bytes received since `start`, with headers, without photos."""
        sizes = self._bytes_by_request
        return sum(size for request, size in sizes.items() if request not in self._photos)

    def _open_world(self) -> int:
        frame = self._session.send("Page.getFrameTree")["frameTree"]["frame"]["id"]
        given = {"frameId": frame, "worldName": "audit"}
        world: int = self._session.send("Page.createIsolatedWorld", given)["executionContextId"]
        return world

    def _evaluate(self, expression: str, world: int) -> Any:
        given = {
            "expression": expression,
            "contextId": world,
            "awaitPromise": True,
            "returnByValue": True,
        }
        answer = self._session.send("Runtime.evaluate", given)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def _on_timeline(self, given: dict[str, Any]) -> None:
        details = given["event"].get("layoutShiftDetails")
        if details is not None and not details["hadRecentInput"]:
            self._shift += details["value"]

    def _on_response(self, given: dict[str, Any]) -> None:
        kind = given["response"]["mimeType"]
        path = urlsplit(given["response"]["url"]).path
        if kind.startswith("image/") and not path.endswith(".svg"):
            self._photos.add(given["requestId"])

    def _on_loaded(self, given: dict[str, Any]) -> None:
        self._bytes_by_request[given["requestId"]] = int(given["encodedDataLength"])


def _structure_faults(found: dict[str, Any]) -> Iterator[str]:
    if found["headings"] != 1:
        yield f"{found['headings']} h1 in place of one"
    if not found["title"]:
        yield "no title"
    if not found["language"]:
        yield "no language"
    if found["overflow"] > 0:
        yield f"{found['overflow']} pixels wider than the window"


def _narrow_column_faults(found: list[str]) -> Iterator[str]:
    if found:
        shown = "; ".join(found[:_MAX_PLACES_SHOWN])
        yield f"{len(found)} columns of few characters, such as {shown}"
