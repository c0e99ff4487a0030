package esker.kafka;

import static esker.kafka.Fixture.MINUTE;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Map;
import java.util.Random;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.DslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.CachedStateStore;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Under Kafka's cache the stores answer as RocksDB's do. The cache merges its entries with the store's
 * by the order of their raw keys, so keys are some that are the beginnings of others.
 */
class OrderTest {
    private static final byte[] ALPHABET = {0, 1, 0x61, (byte) 0xFF};
    private static final long RETENTION = 20 * MINUTE;
    private static final long TIMES = 15 * MINUTE;
    private static final int STEPS = 2_000;

    @TempDir Path dir;

    private static byte[] randomKey(Random random) {
        byte[] key = new byte[1 + random.nextInt(3)];
        for (int at = 0; at < key.length; at++) {
            key[at] = ALPHABET[random.nextInt(ALPHABET.length)];
        }
        return key;
    }

    private static String text(KeyValueIterator<Windowed<byte[]>, byte[]> entries) {
        StringBuilder text = new StringBuilder();
        try (entries) {
            while (entries.hasNext()) {
                var entry = entries.next();
                text.append(HexFormat.of().formatHex(entry.key.key()))
                        .append(entry.key.window())
                        .append(Arrays.toString(entry.value))
                        .append('\n');
            }
        }
        return text.toString();
    }

    private static void flush(StateStore store) {
        ((CachedStateStore<?, ?>) store).flushCache();
    }

    private static <S extends StateStore> void same(
            S ours, S theirs, Function<S, KeyValueIterator<Windowed<byte[]>, byte[]>> read) {
        assertEquals(text(read.apply(theirs)), text(read.apply(ours)));
    }

    private static byte[] randomValue(Random random) {
        return random.nextInt(4) == 0 ? null : Fixture.value(random.nextInt(1000));
    }

    private WindowStore<byte[], byte[]> windows(DslStoreSuppliers suppliers, String name) {
        var store =
                Stores.windowStoreBuilder(
                                suppliers.windowStore(Fixture.windows(RETENTION)),
                                Serdes.ByteArray(),
                                Serdes.ByteArray())
                        .withCachingEnabled()
                        .withLoggingDisabled()
                        .build();
        store.init(Fixture.task(dir.resolve(name), 1 << 20), store);
        return store;
    }

    @Test
    void windowsAreInTheOrderOfTheCache() {
        Random random = new Random(1);
        var ours = windows(Fixture.suppliers(Map.of()), "esker");
        var theirs = windows(new BuiltInDslStoreSuppliers.RocksDBDslStoreSuppliers(), "rocksdb");
        for (int step = 0; step < STEPS; step++) {
            byte[] key = randomKey(random);
            byte[] value = randomValue(random);
            long time = random.nextLong(TIMES) / MINUTE * MINUTE;
            ours.put(key, value, time);
            theirs.put(key, value, time);
            if (random.nextInt(20) == 0) {
                flush(ours);
                flush(theirs);
            }
            if (random.nextInt(10) == 0) {
                byte[][] keys = {randomKey(random), randomKey(random)};
                Arrays.sort(keys, Arrays::compareUnsigned);
                byte[] low = random.nextInt(5) == 0 ? null : keys[0];
                byte[] high = random.nextInt(5) == 0 ? null : keys[1];
                long from = random.nextLong(TIMES);
                long to = from + random.nextLong(TIMES);
                same(ours, theirs, store -> store.fetch(low, high, from, to));
                same(ours, theirs, store -> store.backwardFetch(low, high, from, to));
                same(ours, theirs, store -> store.fetchAll(from, to));
                same(ours, theirs, store -> store.backwardFetchAll(from, to));
                same(ours, theirs, WindowStore::all);
                same(ours, theirs, WindowStore::backwardAll);
                same(ours, theirs, store -> store.fetch(key, key, from, to));
            }
        }
        ours.close();
        theirs.close();
    }

    private SessionStore<byte[], byte[]> sessions(DslStoreSuppliers suppliers, String name) {
        var store =
                Stores.sessionStoreBuilder(
                                suppliers.sessionStore(Fixture.sessions(RETENTION)),
                                Serdes.ByteArray(),
                                Serdes.ByteArray())
                        .withCachingEnabled()
                        .withLoggingDisabled()
                        .build();
        store.init(Fixture.task(dir.resolve(name), 1 << 20), store);
        return store;
    }

    @Test
    void sessionsAreInTheOrderOfTheCache() {
        Random random = new Random(2);
        var ours = sessions(Fixture.suppliers(Map.of()), "esker");
        var theirs = sessions(new BuiltInDslStoreSuppliers.RocksDBDslStoreSuppliers(), "rocksdb");
        for (int step = 0; step < STEPS; step++) {
            long start = random.nextLong(TIMES) / MINUTE * MINUTE;
            long end = start + random.nextLong(3) * MINUTE;
            var session = new Windowed<>(randomKey(random), new SessionWindow(start, end));
            byte[] value = randomValue(random);
            ours.put(session, value);
            theirs.put(session, value);
            if (random.nextInt(20) == 0) {
                flush(ours);
                flush(theirs);
            }
            if (random.nextInt(10) == 0) {
                byte[][] keys = {randomKey(random), randomKey(random)};
                Arrays.sort(keys, Arrays::compareUnsigned);
                byte[] low = keys[0];
                byte[] high = keys[1];
                long from = random.nextLong(TIMES);
                long to = from + random.nextLong(TIMES);
                same(ours, theirs, store -> store.findSessions(low, high, from, to));
                same(ours, theirs, store -> store.backwardFindSessions(low, high, from, to));
                same(ours, theirs, store -> store.findSessions(low, from, to));
                same(ours, theirs, store -> store.fetch(low, high));
                same(ours, theirs, store -> store.backwardFetch(low, high));
            }
        }
        ours.close();
        theirs.close();
    }
}
