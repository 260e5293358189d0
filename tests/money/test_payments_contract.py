"""Each of our payment processors keeps the contract of processors."""

from staffbooking_adapters.testing.processor import processor_suites
from tests.money.processors import PROCESSORS

for _name, _opener in PROCESSORS.items():
    globals().update(processor_suites(_opener, _name))
