"""Entries as Arrow record batches."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any


def reader(items: Any, batch_size: int) -> Any:
    try:
        # Not by a statement, as mypy would want its types, which it does not have.
        pa: Any = import_module("pyarrow")
    except ImportError as error:
        raise ImportError("to_arrow needs pyarrow: pip install pyarrow") from error
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}: it is 1 at least")
    names = [name for name, has in zip(("key", "value"), items._has) if has]
    schema = pa.schema([pa.field(name, pa.binary(), nullable=False) for name in names])

    def column(buffers: Any, rows: int, skipped: int) -> Any:
        offsets, data = map(pa.py_buffer, buffers)
        return pa.Array.from_buffers(
            pa.binary(), rows, [None, offsets, data], null_count=0, offset=skipped
        )

    def batches() -> Iterator[Any]:
        while True:
            rows, skipped, keys, values = items._columns(batch_size)
            if rows == 0:
                return
            columns = {"key": keys, "value": values}
            arrays = [column(columns[name], rows, skipped) for name in names]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
