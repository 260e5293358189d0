"""Credentials and windows of requests: all that wait at a moment in one go.

PostgreSQL looks keys up, judges them and counts their hits in one statement, so what it
judges must agree with `accounts.judge_key`, which tells the callers why they are refused.
SQLite looks up in one file, and what was judged here is counted in another.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from attrs import field, frozen
from sqlalchemy import bindparam, or_, update

from staffbooking_adapters.sql import windows
from staffbooking_adapters.sql.accounts import GET_SESSION, SESSION, to_session, to_user
from staffbooking_adapters.sql.callers import find_and_count, find_callers
from staffbooking_adapters.sql.connection import Database
from staffbooking_adapters.sql.dialect import rowset
from staffbooking_adapters.sql.lane import Lane, Waiting
from staffbooking_adapters.sql.statements import Statement
from staffbooking_adapters.sql.tables import api_keys
from staffbooking_adapters.sql.types import BigInt, Instant
from staffbooking_adapters.sql.windows import Hits
from staffbooking_core.domain import limits
from staffbooking_core.domain.accounts import judge_key, judge_session
from staffbooking_core.domain.keys import Permission
from staffbooking_core.domain.limits import Rule, Verdict, Window
from staffbooking_core.errors import StaffbookingError, Unauthenticated, Unavailable
from staffbooking_core.policy import Policy
from staffbooking_core.ports import KeyCaller, SessionCaller
