"""The page of the API documentation, rendered from the OpenAPI document."""

from litestar import get
from litestar.response import Template

from staffbooking_core.domain.accounts.users import csrf_token
from staffbooking_http.api.access import find_session_token
from staffbooking_http.docs.snippets import general_answers, start_snippets
from staffbooking_http.pages.session import PageRequest, get_call, render


@get("/docs")
async def show_docs(request: PageRequest) -> Template:
    """Show the API documentation, rendered without external resources. Documents do not ask the
    store (CONTRACT 10), so the visitor is unknown; the CSRF token follows from the cookie."""
    token = find_session_token(get_call(request).scope["headers"])
    csrf = "" if token is None else csrf_token(token)
    served = request.app.state.document
    is_sandbox = get_call(request).ports.sandbox is not None
    return render(
        "docs.html",
        csrf=csrf,
        document=served.plain,
        calls=served.calls,
        start=start_snippets(served.plain["servers"][0]["url"]),
        general=general_answers(served.plain),
        tries=is_sandbox,
    )


PAGES = (show_docs,)
