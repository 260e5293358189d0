"""Static files of the pages, served under names that contain the digest of their content, so that
browsers may keep them for ever. Modules of scripts name each other by their plain names, which are
replaced by the served names when the files are loaded. The style sheets are served as one."""

import gzip
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from attrs import frozen
from litestar import Response, get

from staffbooking_core.errors import NotFound
from staffbooking_http.pages.session import PageRequest

_DIRECTORY = Path(__file__).parent / "static"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
_IMPORTED_MODULE = re.compile(r'(?<=["\'])\./([a-z_]+\.js)(?=["\'])')
_STATIC_PATH = "/static/"
_STYLE_SHEET = "app.css"
"""The order of the cascade layers; all other style sheets come behind it."""


@frozen
class Asset:
    """A static file: its served name, its media type, and its bytes, plain and compressed."""

    name: str
    media_type: str
    body: bytes
    compressed_body: bytes


def asset_path(name: str) -> str:
    """The path, below the mount path, of the static file with this plain name."""
    return _STATIC_PATH + _load(name).name


@cache
def _load(name: str) -> Asset:
    """The static file with this plain name, such as `app.css` or `chat.js`."""
    plain = Path(name)
    folder = _DIRECTORY / "js" if plain.suffix == ".js" else _DIRECTORY
    body = (folder / name).read_bytes()
    if name == _STYLE_SHEET:
        body += b"".join(path.read_bytes() for path in _style_sheets())
    if plain.suffix == ".js":
        text = body.decode()
        body = _IMPORTED_MODULE.sub(lambda found: f"./{_load(found[1]).name}", text).encode()
    digest = hashlib.sha256(body).hexdigest()[:10]
    served = f"{plain.stem}.{digest}{plain.suffix}"
    return Asset(served, _MEDIA_TYPES[plain.suffix], body, gzip.compress(body, mtime=0))


def _style_sheets() -> Sequence[Path]:
    return sorted((_DIRECTORY / "css").glob("*.css"))


@cache
def _assets_by_name() -> Mapping[str, Asset]:
    files = {path for path in _DIRECTORY.rglob("*") if path.suffix in _MEDIA_TYPES}
    assets = [_load(path.name) for path in files.difference(_style_sheets())]
    return {asset.name: asset for asset in assets}


@get(_STATIC_PATH + "{name:str}")
async def show_asset(request: PageRequest) -> Response[bytes]:
    """Serve a static file, compressed where the browser accepts it."""
    asset = _assets_by_name().get(request.path_params["name"])
    if asset is None:
        raise NotFound("File")
    headers = {"cache-control": "public, max-age=31536000, immutable", "vary": "accept-encoding"}
    body = asset.body
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        body = asset.compressed_body
    return Response(body, media_type=asset.media_type, headers=headers)


PAGES = (show_asset,)
