"""Where the service is mounted: the path of the base URL, and of the server or framework."""

from urllib.parse import urlsplit

from staffbooking_core.policy import Policy
from staffbooking_http.api.endpoint import Scope


def base_path(policy: Policy) -> str:
    """The path that all links of the service begin with: empty, or such as `/booking`."""
    return urlsplit(policy.base_url).path.rstrip("/")


def origin(policy: Policy) -> str:
    """The origin of the service's own pages, in lower case."""
    parts = urlsplit(policy.base_url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def strip_mount_path(scope: Scope, base_path: str) -> Scope:
    """The scope with the path below the one where the application is mounted: `root_path`, else
    the path of the base URL. Servers and frameworks differ in whether the path begins with it."""
    path: str = scope["path"]
    if "litestar_app" in scope:  # Litestar strips the path of a mount, and adds a slash.
        is_added = path.endswith("/") and not scope.get("raw_path", b"").endswith(b"/")
        return {**scope, "path": (path[:-1] if is_added else path) or "/", "root_path": ""}
    mount_path = scope.get("root_path") or base_path
    if not mount_path:
        return scope
    rest = path.removeprefix(mount_path)
    is_below = not rest or rest.startswith("/")
    return {**scope, "path": (rest or "/") if is_below else path, "root_path": ""}
