"""Where the service is mounted: the path of the base URL, and of the server or framework."""

from urllib.parse import urlsplit

from staffbooking_core.policy import Policy
from staffbooking_http.api.endpoint import Scope


def base_path(policy: Policy) -> str:
    """Return the path prefix of all links of the service: empty, or such as `/booking`."""
    return urlsplit(policy.base_url).path.rstrip("/")


def origin(policy: Policy) -> str:
    """Return the origin of the service's own pages, in lower case."""
    parts = urlsplit(policy.base_url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def strip_mount_path(scope: Scope, base_path: str) -> Scope:
    """Return the scope with its path relative to the mount path: `root_path`, else the path of
    the base URL. Servers and frameworks differ in whether the path includes the mount path."""
    path: str = scope["path"]
    if "litestar_app" in scope:  # Litestar strips the mount path and appends a slash.
        is_added = path.endswith("/") and not scope.get("raw_path", b"").endswith(b"/")
        return {**scope, "path": (path[:-1] if is_added else path) or "/", "root_path": ""}
    mount_path = scope.get("root_path") or base_path
    if not mount_path:
        return scope
    rest = path.removeprefix(mount_path)
    is_below = not rest or rest.startswith("/")
    return {**scope, "path": (rest or "/") if is_below else path, "root_path": ""}
