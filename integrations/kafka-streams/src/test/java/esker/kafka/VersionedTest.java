package esker.kafka;

import static esker.kafka.Fixture.MINUTE;
import static esker.kafka.Fixture.key;
import static esker.kafka.Fixture.value;
import static org.apache.kafka.streams.state.VersionedKeyValueStore.PUT_RETURN_CODE_NOT_PUT;
import static org.apache.kafka.streams.state.VersionedKeyValueStore.PUT_RETURN_CODE_VALID_TO_UNDEFINED;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import esker.Db;
import esker.Settings;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.query.FailureReason;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.ResultOrder;
import org.apache.kafka.streams.query.VersionedKeyQuery;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Versioned stores against a model, over restarts and restores, and their queries. */
class VersionedTest {
    private static final long RETENTION = 3 * MINUTE;
    private static final int STEPS = 6_000;
    private static final int RECORDS = 2_000;

    /** Some are the beginnings of others, and look like others with a time. */
    private static final List<Bytes> KEYS =
            List.of(key("a"), key("a\0\0\0\0\0\0\0\0"), key("ab"), key("b"), key("b\0\0\0"));

    @TempDir Path dir;

    private VersionedStore open(Path below, long retention) {
        var store = new VersionedStore("versions", retention, new Shared(Map.of()));
        store.init(Fixture.task(below, 0), store);
        return store;
    }

    /** All versions that there ever were. */
    private static final class Model {
        private final Map<Bytes, TreeMap<Long, Optional<byte[]>>> versions = new HashMap<>();
        private final long retention;
        private long now = -1;

        Model(long retention) {
            this.retention = retention;
        }

        private TreeMap<Long, Optional<byte[]>> of(Bytes key) {
            return versions.computeIfAbsent(key, name -> new TreeMap<>());
        }

        long put(Bytes key, byte[] value, long timestamp) {
            if (timestamp < now - retention) {
                return PUT_RETURN_CODE_NOT_PUT;
            }
            now = Math.max(now, timestamp);
            of(key).put(timestamp, Optional.ofNullable(value));
            Long next = of(key).higherKey(timestamp);
            return next == null ? PUT_RETURN_CODE_VALID_TO_UNDEFINED : next;
        }

        private VersionedRecord<byte[]> record(Bytes key, long timestamp) {
            byte[] value = of(key).get(timestamp).orElse(null);
            Long next = of(key).higherKey(timestamp);
            if (value == null) {
                return null;
            }
            return next == null
                    ? new VersionedRecord<>(value, timestamp)
                    : new VersionedRecord<>(value, timestamp, next);
        }

        VersionedRecord<byte[]> get(Bytes key, long asOf) {
            Long timestamp = of(key).floorKey(asOf);
            if (timestamp == null) {
                return null;
            }
            boolean isLast = timestamp.equals(of(key).lastKey());
            return isLast || asOf >= now - retention ? record(key, timestamp) : null;
        }

        List<VersionedRecord<byte[]>> get(Bytes key, long from, long to) {
            List<VersionedRecord<byte[]>> found = new ArrayList<>();
            for (long timestamp : of(key).headMap(to, true).keySet()) {
                Long next = of(key).higherKey(timestamp);
                boolean isIn =
                        next == null
                                || (to >= now - retention && next > Math.max(from, now - retention));
                VersionedRecord<byte[]> record = record(key, timestamp);
                if (isIn && record != null) {
                    found.add(record);
                }
            }
            return found;
        }
    }

    private static String text(VersionedRecord<byte[]> record) {
        return record == null
                ? "none"
                : record.timestamp() + " " + record.validTo() + Arrays.toString(record.value());
    }

    private static List<String> texts(VersionedRecordIterator<byte[]> records) {
        List<String> texts = new ArrayList<>();
        try (records) {
            records.forEachRemaining(record -> texts.add(text(record)));
        }
        return texts;
    }

    private static void same(Model model, VersionedStore store, Random random, long until) {
        Bytes key = KEYS.get(random.nextInt(KEYS.size()));
        long from = random.nextLong(until);
        long to = from + random.nextLong(until);
        assertEquals(text(model.get(key, Long.MAX_VALUE)), text(store.get(key)));
        assertEquals(text(model.get(key, from)), text(store.get(key, from)));
        List<String> expected = new ArrayList<>();
        model.get(key, from, to).forEach(record -> expected.add(text(record)));
        assertEquals(expected, texts(store.get(key, from, to, ResultOrder.ASCENDING)));
        Collections.reverse(expected);
        assertEquals(expected, texts(store.get(key, from, to, ResultOrder.DESCENDING)));
        assertEquals(expected, texts(store.get(key, from, to, ResultOrder.ANY)));
    }

    /** A time from some retentions ago to a little ahead, and often one that was used before. */
    private static long randomTime(Random random, long now, long retention) {
        long time = now + random.nextLong(-2 * retention - 10, retention / 20 + 10);
        return Math.max(0, random.nextBoolean() ? time : time / 1_000 * 1_000);
    }

    private static byte[] randomValue(Random random) {
        return switch (random.nextInt(6)) {
            case 0, 1 -> null;
            case 2 -> new byte[0];
            default -> value(random.nextInt());
        };
    }

    private void likeTheModel(int seed, long retention) {
        Random random = new Random(seed);
        Model model = new Model(retention);
        Path below = dir.resolve("model" + seed);
        VersionedStore store = open(below, retention);
        for (int step = 0; step < STEPS; step++) {
            Bytes key = KEYS.get(random.nextInt(KEYS.size()));
            byte[] value = randomValue(random);
            long time = randomTime(random, model.now, retention);
            if (random.nextInt(10) == 0) {
                String before =
                        time < model.now - retention ? "none" : text(model.get(key, time));
                assertEquals(before, text(store.delete(key, time)));
                model.put(key, null, time);
            } else {
                assertEquals(model.put(key, value, time), store.put(key, value, time));
            }
            same(model, store, random, model.now + MINUTE);
            if (random.nextInt(2_000) == 0) {
                store.close();
                store = open(below, retention);
                // A restart forgets a part of the stream time.
                assertEquals(
                        model.put(key, value, model.now), store.put(key, value, model.now));
            }
        }
        store.close();
    }

    @Test
    void randomVersionsAreThoseOfAModel() {
        likeTheModel(1, RETENTION);
        likeTheModel(2, 10);
        likeTheModel(3, 0);
    }

    private static ConsumerRecord<byte[], byte[]> changelog(
            Bytes key, byte[] value, long timestamp, long offset) {
        return new ConsumerRecord<>(
                "changelog",
                0,
                offset,
                timestamp,
                TimestampType.CREATE_TIME,
                0,
                0,
                key.get(),
                value,
                new RecordHeaders(),
                Optional.empty());
    }

    @Test
    void aRestoreGivesTheSameVersions() {
        Random random = new Random(4);
        Model model = new Model(RETENTION);
        var task = Fixture.task(dir, 0);
        var store = new VersionedStore("versions", RETENTION, new Shared(Map.of()));
        store.init(task, store);
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int offset = 0; offset < RECORDS; offset++) {
            Bytes key = KEYS.get(random.nextInt(KEYS.size()));
            byte[] value = randomValue(random);
            long time = randomTime(random, model.now, RETENTION);
            model.put(key, value, time);
            records.add(changelog(key, value, time, offset));
            if (random.nextInt(100) == 0) {
                task.restoreWithHeaders("versions", records);
                records.clear();
            }
        }
        task.restoreWithHeaders("versions", records);
        for (int step = 0; step < RECORDS; step++) {
            same(model, store, random, model.now + MINUTE);
        }
        assertEquals(Position.emptyPosition(), store.getPosition(), "not that of the changelog");
        store.close();
    }

    @Test
    void aWriteThatWasTooLateIsSoAfterARestart() {
        VersionedStore store = open(dir, RETENTION);
        store.put(key("k"), null, 10);
        store.put(key("other"), value(1), 10 * MINUTE);
        assertEquals(PUT_RETURN_CODE_NOT_PUT, store.put(key("k"), value(1), 5));
        store.close();
        store = open(dir, RETENTION);
        assertEquals(PUT_RETURN_CODE_NOT_PUT, store.put(key("k"), value(1), 5));
        assertNull(store.get(key("k")), "it was deleted after that");
        store.close();
    }

    @Test
    void whatExpiredUsesNoSpace() {
        VersionedStore store = open(dir, RETENTION);
        for (int number = 0; number < 2_000; number++) {
            Bytes key = Bytes.wrap(value(number));
            long time = number * MINUTE / 10;
            store.put(key, value(1), time);
            store.put(key, value(2), time + 1);
            store.put(key, null, time + 2);
        }
        // Segments of half the retention, and the clock.
        List<String> names = store.db().keyspaces();
        assertTrue(names.size() <= 6, names.toString());
        long left = 0;
        for (String name : names) {
            try (var entries = store.db().openKeyspace(name).scan(esker.Range.all())) {
                for (; entries.hasNext(); entries.next()) {
                    left++;
                }
            }
        }
        assertTrue(left < 200, left + " entries");
        store.close();
    }

    @Test
    void negativeTimestampsAreRefused() {
        VersionedStore store = open(dir, RETENTION);
        assertThrows(
                IllegalArgumentException.class, () -> store.put(key("k"), value(1), -1));
        assertNull(store.get(key("k"), -1));
        assertThrows(
                IllegalArgumentException.class,
                () -> EskerStores.versionedKeyValueStore("s", Duration.ofMillis(-1)));
        store.close();
    }

    @Test
    void queriesFindVersions() {
        var store =
                Stores.versionedKeyValueStoreBuilder(
                                EskerStores.versionedKeyValueStore(
                                        "versions", Duration.ofMillis(RETENTION)),
                                Serdes.String(),
                                Serdes.Long())
                        .withLoggingDisabled()
                        .build();
        store.init(Fixture.task(dir, 0), store);
        store.put("k", 1L, 10);
        store.put("k", 2L, 20);
        store.put("k", null, 30);
        store.put("k", 4L, 40);
        assertEquals(new VersionedRecord<>(4L, 40), store.get("k"));
        // Kafka's wrapper leaves out until when it was valid.
        assertEquals(new VersionedRecord<>(1L, 10), store.get("k", 15));

        var all = PositionBound.unbounded();
        var config = new QueryConfig(true);
        var last = store.query(VersionedKeyQuery.<String, Long>withKey("k"), all, config);
        assertEquals(new VersionedRecord<>(4L, 40), last.getResult());
        var past = VersionedKeyQuery.<String, Long>withKey("k").asOf(Instant.ofEpochMilli(20));
        assertEquals("<2,20,Optional[30]>", store.query(past, all, config).getResult().toString());

        var some =
                MultiVersionedKeyQuery.<String, Long>withKey("k")
                        .fromTime(Instant.ofEpochMilli(20))
                        .withAscendingTimestamps();
        var result = store.query(some, all, config);
        assertEquals(Position.emptyPosition().withComponent("input", 0, 7), result.getPosition());
        assertEquals(2, result.getExecutionInfo().size(), result.getExecutionInfo().toString());
        try (VersionedRecordIterator<Long> versions = result.getResult()) {
            assertEquals("<2,20,Optional[30]>", versions.next().toString());
            assertEquals(new VersionedRecord<>(4L, 40), versions.next());
            assertTrue(!versions.hasNext());
        }
        var later = PositionBound.at(Position.emptyPosition().withComponent("input", 0, 8));
        var early = store.query(some, later, config);
        assertEquals(FailureReason.NOT_UP_TO_BOUND, early.getFailureReason());
        store.close();
    }

    @Test
    void versionsAreThoseOfOneSnapshot() {
        VersionedStore store = open(dir, RETENTION);
        store.put(key("k"), value(1), 10);
        store.put(key("k"), value(2), 20);
        var versions = store.get(key("k"), 0, Long.MAX_VALUE, ResultOrder.ASCENDING);
        store.put(key("k"), value(3), 30);
        assertEquals(20, versions.next().validTo().orElseThrow());
        assertTrue(versions.next().validTo().isEmpty());
        assertTrue(!versions.hasNext());
        versions.close();

        var open = store.get(key("k"), 0, Long.MAX_VALUE, ResultOrder.ASCENDING);
        store.close();
        assertThrows(InvalidStateStoreException.class, open::hasNext);
        assertThrows(InvalidStateStoreException.class, () -> store.get(key("k")));
        assertThrows(InvalidStateStoreException.class, () -> store.get(key("k"), 10));
        assertThrows(InvalidStateStoreException.class, () -> store.put(key("k"), null, 10));
    }

    @Test
    void anEmptyValueIsNoDelete() {
        VersionedStore store = open(dir, RETENTION);
        store.put(key("k"), new byte[0], 10);
        assertArrayEquals(new byte[0], store.get(key("k")).value());
        store.put(key("k"), null, 20);
        assertArrayEquals(new byte[0], store.get(key("k"), 19).value());
        assertNull(store.get(key("k"), 20));
        store.close();
    }

    @Test
    void aStoreOpensAfterAKillBeforeItsClockWasWritten() {
        try (Db db = Db.open(dir.resolve("esker").resolve("versions"), new Settings())) {
            db.keyspace("clock");
        }
        var store = open(dir, RETENTION);
        store.put(key("a"), value(1), MINUTE);
        assertArrayEquals(value(1), store.get(key("a")).value());
        store.close();
    }
}
