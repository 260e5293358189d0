"""Each of our stores keeps the contract of stores."""

from staffbooking_adapters.testing.store import store_suites
from tests.contract.stores import STORES

for _name, _opener in STORES.items():
    globals().update(store_suites(_opener, _name.capitalize()))
