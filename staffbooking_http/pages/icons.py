"""Icons of the pages, as inline SVG: 24 units wide, drawn with strokes in the colour of the text.
`icons.json` has the path of each by its name."""

import json
from functools import lru_cache
from pathlib import Path

from markupsafe import Markup

_PATHS: dict[str, str] = json.loads((Path(__file__).parent / "icons.json").read_bytes())

_SVG = Markup(
    '<svg class="icon" viewBox="0 0 24 24" width="20" height="20" fill="none" {}'
    ' stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round">'
    '<path d="{}"/></svg>'
)


@lru_cache(1024)
def draw_icon(name: str, label: str = "") -> Markup:
    """The SVG of an icon. Without a label it is decoration, which screen readers pass over."""
    role = Markup('role="img" aria-label="{}"').format(label) if label else _HIDDEN
    return _SVG.format(role, _PATHS[name])


_HIDDEN = Markup('aria-hidden="true"')
