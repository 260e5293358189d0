"""The contract of a payment processor as pytest classes.

    @asynccontextmanager
    async def open_my_bench(request):
        yield ProcessorBench(MyProcessor(...), my_world, clock)

    globals().update(processor_suites(open_my_bench))

in a test module runs the whole contract. `ProcessorWorld` is what your tests do outside of the
processor: they pay, decline, break the network.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

import pytest

from staffbooking_adapters.testing.processor.base import (
    PaymentProcessorContract,
    ProcessorBench,
    ProcessorWorld,
)
from staffbooking_adapters.testing.suites import make_suites

__all__ = [
    "BenchOpener",
    "PaymentProcessorContract",
    "ProcessorBench",
    "ProcessorWorld",
    "base",
    "processor_suites",
]

BenchOpener: TypeAlias = Callable[
    [pytest.FixtureRequest], AbstractAsyncContextManager[ProcessorBench]
]


def processor_suites(
    open_bench: BenchOpener, name: str = ""
) -> dict[str, type[PaymentProcessorContract]]:
    """All suites on the benches that `open_bench` opens, by the names of their test classes."""
    return make_suites(PaymentProcessorContract, "open_bench", open_bench, name)
