"""Published records of companions contain first names only."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"

_LAST_NAME = r'"last_name":"([^"\\]|\\.)*",'


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"UPDATE companions SET {_shortened('summary')}, {_shortened('detail')}")
    else:
        op.execute(
            "UPDATE companions SET"
            " summary = CAST(json_remove(CAST(summary AS TEXT), '$.last_name') AS BLOB),"
            " detail = CAST(json_remove(CAST(detail AS TEXT), '$.companion.last_name') AS BLOB)"
            " WHERE json_valid(CAST(summary AS TEXT))"
        )


def _shortened(column: str) -> str:
    short = f"regexp_replace(convert_from({column}, 'UTF8'), '{_LAST_NAME}', '')"
    return f"{column} = convert_to({short}, 'UTF8')"
