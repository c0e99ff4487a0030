"""What notebooks show."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import islice
from typing import Any

ROWS = 10
LENGTH = 60


def _text(data: bytes) -> str:
    shown = repr(data[:LENGTH])[2:-1] + ("…" if len(data) > LENGTH else "")
    return escape(shown)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], caption: str) -> str:
    def row(cells: tuple[str, ...], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    return f"<table><caption>{caption}</caption>{row(head, 'th')}{body}</table>"


def keyspace(keyspace: Any) -> str:
    """The first entries of a keyspace."""
    name = f"keyspace <b>{escape(keyspace.name)}</b>"
    with keyspace.items() as items:
        entries = list(islice(items, ROWS + 1))
    rows = [(_text(key), _text(value)) for key, value in entries[:ROWS]]
    if len(entries) > ROWS:
        rows.append(("…", f"about {keyspace.approximate_len():,} keys"))
    return _table(("key", "value"), rows, name)


def database(db: Any) -> str:
    """The keyspaces of a database."""
    name = f"database <b>{escape(str(db.path))}</b>"
    if db.closed:
        return f"<p>{name}, closed</p>"
    rows = [
        (escape(name), f"{db.keyspace(name).approximate_len():,}") for name in db.keyspaces()
    ]
    return _table(("keyspace", "keys, about"), rows, name)
