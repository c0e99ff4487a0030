"""Values as files."""

from __future__ import annotations

import io
import os

from ._esker import RawReader
from .errors import ClosedReaderError


# A reader holds one such part of a large value.
PART_BYTES = 256 << 10


class ValueReader(io.BufferedIOBase):
    """A value as a file that is open for reading bytes: see `Keyspace.get_reader`.

    A large value is read a part at a time. What is read never changes, also if the key is overwritten
    meanwhile: the reader keeps the file of the value until it is closed. One thread at once may use it.

    >>> import io
    >>> db[b"poem"] = "Überall\\nRuh\\n".encode()
    >>> for line in io.TextIOWrapper(db.get_reader(b"poem"), encoding="utf-8"):
    ...     print(line.strip())
    Überall
    Ruh
    """

    def __init__(self, raw: RawReader) -> None:
        self._held: RawReader | None = raw

    @property
    def _raw(self) -> RawReader:
        if self._held is None:
            raise ClosedReaderError("the reader is closed")
        return self._held

    @property
    def size(self) -> int:
        """The length of the value, in bytes."""
        return self._raw.size

    def readable(self) -> bool:
        """Returns True: it can be read."""
        return self._raw is not None

    def seekable(self) -> bool:
        """Returns True: any position can be read."""
        return self._raw is not None

    def read(self, size: int | None = -1, /) -> bytes:
        """Reads `size` bytes, or fewer at the end; without `size` all that are left."""
        return self._raw.read(None if size is None or size < 0 else size)

    def read1(self, size: int = -1, /) -> bytes:
        """Reads at most `size` bytes, and without `size` some of those that are left."""
        return self._raw.read(io.DEFAULT_BUFFER_SIZE if size < 0 else size)

    def peek(self, size: int = 0, /) -> bytes:
        """Returns some of the next bytes, without a change of the position."""
        at = self._raw.tell()
        # What is behind the part in memory would be read again with each call.
        in_memory = PART_BYTES - at % PART_BYTES
        ahead = self._raw.read(min(max(size, io.DEFAULT_BUFFER_SIZE), in_memory))
        self._raw.seek(at)
        return ahead

    def tell(self) -> int:
        """Returns the position."""
        return self._raw.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Goes to a position, and returns it. Behind the end there is nothing to read."""
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._raw.tell(), os.SEEK_END: self._raw.size}
        if whence not in starts:
            raise ValueError(f"whence is {whence}; give 0, 1 or 2")
        at = starts[whence] + offset
        if at < 0:
            raise ValueError(f"the position {at} is before the value")
        self._raw.seek(at)
        return at

    def close(self) -> None:
        """Frees what the reader holds. Further reads raise `ClosedReaderError`."""
        self._held = None
        super().close()

    def __repr__(self) -> str:
        """What it is, for people."""
        state = "closed" if self._held is None else f"{self._held.size} bytes"
        return f"<esker.ValueReader, {state}>"
