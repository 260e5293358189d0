"""The reconciliation with the processor's statement, for operators: its state and its runs."""

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.ports import ReconciliationRun
from staffbooking_core.usecases.payments import reconciliation_runs
from staffbooking_http.pages.administration.access import require_operator
from staffbooking_http.pages.session import CsrfForm, PageRequest, get_call, read_form, render

_PATH = "/admin/reconciliation"


@frozen
class _Finding:
    """A difference in words; `code` is empty where it is of no booking."""

    code: str
    text: str


@get(_PATH)
async def show_runs(request: PageRequest) -> Template:
    """Show how the last comparison ended, what differs, and the runs before it."""
    call = get_call(request)
    operator = await require_operator(call)
    runs = await reconciliation_runs.list_runs(call.ports)
    last = next((run for run in runs if run.finished_at is not None), None)
    return render(
        "admin/reconciliation.html",
        operator,
        runs=runs,
        last=last,
        findings=[] if last is None else _findings(last),
        is_running=bool(runs) and runs[0].finished_at is None,
    )


@post(_PATH, status_code=200)
async def ask_for_run(request: PageRequest) -> Redirect:
    """Ask the worker for a comparison; nothing where one is asked for already."""
    call = get_call(request)
    operator = await require_operator(call)
    await read_form(call, operator, CsrfForm)
    await reconciliation_runs.ask_for_run(call.ports, operator.user.email)
    return Redirect(_PATH, status_code=303)


def _findings(run: ReconciliationRun) -> list[_Finding]:
    lines = [line.partition("\t") for line in run.findings.split("\n") if line]
    return [_Finding(code, text) for code, _, text in lines]


PAGES = (show_runs, ask_for_run)
