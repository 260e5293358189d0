"""The page of the API documentation, rendered from the OpenAPI document."""

from litestar import get
from litestar.response import Template

from staffbooking_http.docs.snippets import general_answers, start_snippets
from staffbooking_http.pages.session import PageRequest, get_call, render, unchecked_csrf


@get("/docs")
async def show_docs(request: PageRequest) -> Template:
    """Show the API documentation, rendered without external resources. Documents do not ask the
    store (CONTRACT 10), so the visitor is unknown."""
    served = request.app.state.document
    is_sandbox = get_call(request).ports.sandbox is not None
    return render(
        "docs.html",
        csrf=unchecked_csrf(get_call(request).scope),
        document=served.plain,
        calls=served.calls,
        start=start_snippets(served.plain["servers"][0]["url"]),
        general=general_answers(served.plain),
        tries=is_sandbox,
    )


PAGES = (show_docs,)
