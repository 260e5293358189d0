"""The pages in a real browser, with their content security policy; `make journeys` does more."""

from __future__ import annotations

import pytest

from tests.e2e.deployment import CUSTOMER_EMAIL, PASSWORD, ProcessDeployment
from tests.journeys.browser import DESKTOP, BrowserWatch, open_browser, open_context, open_page


@pytest.mark.parametrize("deployment", ["sqlite"], indirect=True)
def test_a_person_signs_in_and_the_browser_finds_nothing_to_block(
    deployment: ProcessDeployment,
) -> None:
    """A customer signs in by the form and reads pages, and the browser reports no violation of
    their policy."""
    deployment.start_server()
    watch = BrowserWatch()
    with open_browser() as browser, open_context(browser, DESKTOP, deployment.url) as context:
        watch.follow(context)
        page = context.new_page()
        open_page(page, "/account/sign-in")
        main = page.get_by_role("main")
        main.get_by_label("E-mail").fill(CUSTOMER_EMAIL)
        main.get_by_label("Password").fill(PASSWORD)
        main.get_by_role("button", name="Sign in", exact=True).click()
        page.wait_for_url(f"{deployment.url}/")
        for path in ("/find", "/account", "/docs"):
            open_page(page, path)
    assert [fault for fault in watch.take_faults() if "Content Security Policy" in fault] == []
