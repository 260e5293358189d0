"""Payment processors with one fault each."""

PROCESSOR = """
class {{name}}(FakeProcessor):
    {{fault}}

class Test{{name}}({suite}):
    @asynccontextmanager
    async def open_bench(self, request):
        clock = VirtualClock(NOW)
        url, book = "http://test", MemoryFakeDocumentStore()
        processor = {{name}}(
            book, clock, base_url=url, secret=b"events", fee_ppm=29_000, manual_payees=True
        )
        yield ProcessorBench(processor, FakeProcessorWorld(processor), clock)
"""
CHECKOUTS, REFUNDS, PAYOUTS = (
    PROCESSOR.format(suite=f"commands.{suite}") for suite in ("Checkouts", "Refunds", "Payouts")
)
KEYS, LOST = (PROCESSOR.format(suite=f"keys.{suite}") for suite in ("OperationKeys", "Faults"))
PAYEES, WEBHOOKS, EVENTS, STATEMENTS = (
    PROCESSOR.format(suite=f"reads.{suite}")
    for suite in ("Payees", "Webhooks", "EventLists", "Statements")
)

PROCESSORS = {
    "a page is left open": (
        CHECKOUTS,
        "async def close_checkout(self, ref, key, timeout_seconds):\n"
        "        closed = await super().close_checkout(ref, key, timeout_seconds)\n"
        "        return evolve(closed, status='open')",
        "A closed checkout is expired and cannot be paid",
    ),
    "a refund is nobody's": (
        REFUNDS,
        "async def snapshot(self, refs, timeout_seconds):\n"
        "        found = await super().snapshot(refs, timeout_seconds)\n"
        "        return evolve(found, refunds=tuple(evolve(r, op_id=None) for r in found.refunds))",
        "the snapshot has it with the operation's id",
    ),
    "a repeated call refunds again": (
        KEYS,
        "numbers = count(100)\n"
        "    async def refund(self, command, key, timeout_seconds):\n"
        "        key = evolve(key, generation=next(self.numbers))\n"
        "        return await super().refund(command, key, timeout_seconds)",
        "A repeat under the same key makes no second refund, payout or reversal",
    ),
    "a repeated call pays out again": (
        KEYS,
        "numbers = count(100)\n"
        "    async def pay_out(self, command, key, timeout_seconds):\n"
        "        key = evolve(key, generation=next(self.numbers))\n"
        "        return await super().pay_out(command, key, timeout_seconds)",
        "A repeat under the same key makes no second refund, payout or reversal",
    ),
    "a repeated call reverses again": (
        KEYS,
        "numbers = count(100)\n"
        "    async def reverse_payout(self, command, payout_ref, key, timeout_seconds):\n"
        "        key = evolve(key, generation=next(self.numbers))\n"
        "        return await super().reverse_payout(command, payout_ref, key, timeout_seconds)",
        "A repeat under the same key makes no second refund, payout or reversal",
    ),
    "a repeated call opens another account": (
        KEYS,
        "numbers = count(1)\n"
        "    async def open_payee(self, command, key, timeout_seconds):\n"
        "        found = await super().open_payee(command, key, timeout_seconds)\n"
        "        return evolve(found, ref=f'{found.ref}_{next(self.numbers)}')",
        "A repeat under the same key gets the first answer",
    ),
    "a key does not cover the payee": (
        KEYS,
        "first = {}\n"
        "    async def pay_out(self, command, key, timeout_seconds):\n"
        "        ref = self.first.setdefault(key.text, command.payee_ref)\n"
        "        command = evolve(command, payee_ref=ref)\n"
        "        return await super().pay_out(command, key, timeout_seconds)",
        "The same key with another amount, page, payout, payee or name raises",
    ),
    "an unknown payee is missing": (
        PAYOUTS,
        "async def pay_out(self, *given):\n"
        "        try: return await super().pay_out(*given)\n"
        "        except ProcessorRefused as refused:\n"
        "            if refused.reason is not RefusalCode.PAYEE_NOT_READY: raise\n"
        "            raise ProcessorRefused(RefusalCode.MISSING) from None",
        "A payout to an unknown payee, or with an empty `payee_ref`, is refused as",
    ),
    "an error of the network escapes": (
        LOST,
        "async def pay_out(self, *given):\n"
        "        try: return await super().pay_out(*given)\n"
        "        except OutcomeUnknown: raise ConnectionResetError('peer') from None",
        "no error of the network, and none",
    ),
    "a lost answer of a reversal is a refusal": (
        LOST,
        "async def reverse_payout(self, *given):\n"
        "        try: return await super().reverse_payout(*given)\n"
        "        except OutcomeUnknown: raise ProcessorRefused(RefusalCode.INVALID) from None",
        "A call whose answer was lost raises `OutcomeUnknown`",
    ),
    "a snapshot takes any time": (
        LOST,
        "async def snapshot(self, refs, timeout_seconds): return await super().snapshot(refs, 9)",
        "A read without time raises `OutcomeUnknown`",
    ),
    "a lost answer is a refusal": (
        LOST,
        "async def refund(self, *given):\n"
        "        try: return await super().refund(*given)\n"
        "        except OutcomeUnknown: raise ProcessorRefused(RefusalCode.INVALID) from None",
        "A call whose answer was lost raises `OutcomeUnknown`",
    ),
    "every payee is ready": (
        PAYEES,
        "async def payee(self, *given): return evolve(await super().payee(*given), ready=True)",
        "An account that is not ready has needs, and a ready one has none",
    ),
    "an old event is valid": (
        WEBHOOKS,
        "def parse_webhook(self, headers, body, now):"
        " return super().parse_webhook(headers, body, NOW)",
        "An event six minutes old or in the future is refused",
    ),
    "a cursor is ignored": (
        EVENTS,
        "async def list_events(self, cursor, timeout_seconds):"
        " return await super().list_events(None, timeout_seconds)",
        "A cursor lists later events, and repeats no events older than the previous page",
    ),
    "fees are left out": (
        STATEMENTS,
        "async def statement(self):\n"
        "        async for line in super().statement():\n"
        "            if line.kind is not MovementKind.FEE: yield line",
        "The lines, fees included, add up to the platform's balance",
    ),
}
"""Template, faulty code and a part of the broken promise, by what is wrong."""
