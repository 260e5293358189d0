"""The whole life of a booking in memory: python script.py"""

import asyncio
from datetime import timedelta
from decimal import Decimal

from staffbooking_adapters import memory_ports
from staffbooking_core import Actor, Ports, Role, inputs, run_all_due
from staffbooking_core.usecases import sandbox
