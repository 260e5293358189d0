"""libfaketime, under which a process has a wrong clock of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from attrs import frozen

from tests.support.required_tools import skip_or_fail


@frozen
class FakeTime:
    """The environment of a process whose wall clock is off by an offset that may change while it
    runs; its monotonic clock is right."""

    library: str
    offset_file: Path

    def set_offset(self, offset: str) -> None:
        """Set how far the clock is ahead: `+9d`, `-1h`, `+0`."""
        new = self.offset_file.with_suffix(".new")
        new.write_text(f"{offset}\n")
        new.replace(self.offset_file)

    @property
    def environ(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": self.library,
            "FAKETIME_TIMESTAMP_FILE": str(self.offset_file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


def make_fake_time(folder: Path, offset: str) -> FakeTime:
    """A fake time at this offset; the test is skipped or fails where libfaketime is missing."""
    if shutil.which("faketime") is None:
        skip_or_fail("faketime", "Wrong clocks of processes", "faketime is not installed")
    shown = subprocess.run(
        ["faketime", "-f", "+0", "printenv", "LD_PRELOAD"],
        check=True,
        capture_output=True,
        text=True,
    )
    fake_time = FakeTime(shown.stdout.strip(), folder / "offset")
    fake_time.set_offset(offset)
    return fake_time
