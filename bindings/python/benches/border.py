"""The cost of the border: gets of 100 bytes, and scans, of Esker, plyvel and rocksdict.

    DIR/bin/pip install plyvel rocksdict && DIR/bin/python bindings/python/benches/border.py

All stores are in this process, with the same entries, in tables and cached. They take turns; each
figure is the median of the rounds, with the quartiles.
"""

import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path

import esker
import esker.plyvel

KEYS = 100_000
GETS = 10_000
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 101
SCAN_ROUNDS = max(ROUNDS // 5, 5)
CACHE = 256 << 20


def key(number):
    return b"user%012d" % (number * 2_654_435_761 % KEYS)


def value(number):
    return b"%0100d" % number


def fill(put):
    for number in range(KEYS):
        put(key(number), value(number))


def esker_store(path):
    with esker.open(path) as db:
        fill(db.put)
    db = esker.open(path)
    return {"esker": db.get, "esker[]": db.__getitem__}, {
        "esker": db.items,
        "esker keys": db.keys,
    }


def over_plyvel(module, name):
    def store(path):
        options = {"lru_cache_size": CACHE, "bloom_filter_bits": 10, "compression": None}
        db = module.DB(str(path), create_if_missing=True, **options)
        fill(db.put)
        db.compact_range()
        db.close()
        db = module.DB(str(path), **options)
        return {name: db.get}, {name: db.iterator}

    return store


def rocksdict_store(path):
    import rocksdict

    options = rocksdict.Options(raw_mode=True)
    table = rocksdict.BlockBasedOptions()
    table.set_block_cache(rocksdict.Cache(CACHE))
    table.set_bloom_filter(10, False)
    options.set_block_based_table_factory(table)
    options.set_compression_type(rocksdict.DBCompressionType.none())
    db = rocksdict.Rdict(str(path), options)
    fill(db.put)
    db.flush()
    db.compact_range(None, None)
    return {"rocksdict": db.get}, {"rocksdict": db.items}


def stores():
    yield esker_store
    yield over_plyvel(esker.plyvel, "esker.plyvel")
    try:
        import plyvel
    except ImportError:
        print("SKIPPED plyvel: pip install plyvel", file=sys.stderr)
    else:
        yield over_plyvel(plyvel, "plyvel")
    try:
        import rocksdict  # noqa: F401
    except ImportError:
        print("SKIPPED rocksdict: pip install rocksdict", file=sys.stderr)
    else:
        yield rocksdict_store


def nanos(work, count):
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) / count


def get_all(get, keys):
    for key in keys:
        get(key)


def drain(iterate):
    for _ in iterate():
        pass


def turns(title, works, rounds, against):
    times = {name: [] for name in works}
    for round in range(rounds + 1):
        for name, work in works.items():
            taken = work(round)
            # The first round fills caches.
            if round:
                times[name].append(taken)
    print(title)
    for name, taken in times.items():
        ratios = [own / other for own, other in zip(taken, times.get(against, taken))]
        low, median, high = statistics.quantiles(ratios, n=4)
        print(
            f"  {name:14} {statistics.median(taken):8.0f} ns   "
            f"{median:.2f} ({low:.2f} to {high:.2f}) times {against}"
        )


def main():
    with tempfile.TemporaryDirectory() as directory:
        gets, scans = {}, {}
        for number, store in enumerate(stores()):
            found, scanned = store(Path(directory) / str(number))
            gets |= found
            scans |= scanned
        against = "plyvel" if "plyvel" in gets else "esker"

        batches = [[key(n) for n in range(at, at + GETS)] for at in range(0, KEYS, GETS)]

        def of_get(get):
            return lambda round: nanos(lambda: get_all(get, batches[round % len(batches)]), GETS)

        def of_scan(iterate):
            return lambda round: nanos(lambda: drain(iterate), KEYS)

        def of_short_scan(iterate):
            def work():
                for _ in range(1000):
                    for _ in itertools.islice(iterate(), 10):
                        pass

            return lambda round: nanos(work, 1000)

        turns("a get of 100 bytes", {n: of_get(g) for n, g in gets.items()}, ROUNDS, against)
        works = {name: of_scan(iterate) for name, iterate in scans.items()}
        turns("an entry of a scan", works, SCAN_ROUNDS, against)
        works = {name: of_short_scan(iterate) for name, iterate in scans.items()}
        turns("an iterator over ten entries", works, SCAN_ROUNDS, against)


main()
