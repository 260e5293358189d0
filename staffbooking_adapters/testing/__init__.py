"""What tests of adapters need: contract suites for the ports, and ports in memory as fixtures.

It needs the extra `testing`; nothing else imports it.
"""

import pkgutil

import pytest

__all__ = ["file_storage", "machine", "plugin"]

# A failing assert of these modules shows its values, as one of a test module does.
pytest.register_assert_rewrite(
    *(f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__))
)
