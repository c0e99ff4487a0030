import pytest

import esker

# A small log, because it is allocated at once.
SMALL = {"segment_bytes": "1MiB", "memory_bytes": "16MiB"}


@pytest.fixture
def db(tmp_path):
    with esker.open(tmp_path / "data", **SMALL) as db:
        yield db


@pytest.fixture
def many(db):
    """A database whose entries are partly in tables and partly in memory."""
    for number in range(3000):
        db[b"%05d" % number] = b"value %d" % number
        if number == 1500:
            db.flush()
    return db
