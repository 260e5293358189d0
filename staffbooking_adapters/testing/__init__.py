"""What tests of adapters need: contract suites for the ports, builders and strategies of the
core's values, and ports and a whole service in memory as fixtures.

It needs the extra `testing`; nothing else imports it.
"""

import pkgutil

from staffbooking_adapters.extras import check_extra

check_extra("testing")

import pytest  # noqa: E402 - a missing extra is named before

__all__ = [
    "builders",
    "file_storage",
    "machine",
    "notifier",
    "plugin",
    "processor",
    "pubsub",
    "receivers",
    "service",
    "store",
    "strategies",
    "webhook_sender",
]

_modules = [module.name for module in pkgutil.iter_modules(__path__)]
# A failing assert of these modules shows its values, as one of a test module does.
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in _modules))
