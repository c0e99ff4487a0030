package esker.kafka;

import static esker.kafka.Fixture.MINUTE;
import static esker.kafka.Fixture.all;
import static esker.kafka.Fixture.changelog;
import static esker.kafka.Fixture.key;
import static esker.kafka.Fixture.value;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.DslKeyValueParams;
import org.apache.kafka.streams.state.internals.SessionKeySchema;
import org.apache.kafka.streams.state.internals.WindowKeySchema;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Restores from the changelog. */
class RestoreTest {
    /** What the stores keep: two segments of a minute. */
    private static final long RETENTION = 2 * MINUTE;

    @TempDir Path dir;

    /** Changelogs of a window of each minute, and a session of each. */
    private static List<ConsumerRecord<byte[], byte[]>> windows(int from, int to) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int minute = from; minute < to; minute++) {
            byte[] raw = WindowKeySchema.toStoreKeyBinary(key("k"), minute * MINUTE, 0).get();
            records.add(changelog(raw, value(minute), minute));
        }
        return records;
    }

    private static List<ConsumerRecord<byte[], byte[]>> sessions(int from, int to) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int minute = from; minute < to; minute++) {
            long end = minute * MINUTE;
            byte[] raw = SessionKeySchema.toBinary(key("k"), end, end).get();
            records.add(changelog(raw, value(minute), minute));
        }
        return records;
    }

    @Test
    void oneRestoreMaySpanManyRetentionsOfAWindowStore() {
        var store = Fixture.windowStore(Fixture.suppliers(Map.of()), RETENTION);
        var task = Fixture.task(dir, 0);
        store.init(task, store);
        task.restoreWithHeaders("windows", windows(0, 20));
        List<Long> starts =
                all(store.all()).stream().map(entry -> entry.key.window().start()).toList();
        assertEquals(List.of(18 * MINUTE, 19 * MINUTE), starts);
        assertArrayEquals(value(19), store.fetch(key("k"), 19 * MINUTE));

        // Again, into a store that has data, and with what expires after what is kept.
        List<ConsumerRecord<byte[], byte[]>> more = new ArrayList<>(windows(30, 40));
        more.addAll(windows(15, 25));
        task.restoreWithHeaders("windows", more);
        starts = all(store.all()).stream().map(entry -> entry.key.window().start()).toList();
        assertEquals(List.of(38 * MINUTE, 39 * MINUTE), starts);
        store.close();
    }

    @Test
    void oneRestoreMaySpanManyRetentionsOfASessionStore() {
        var store = Fixture.sessionStore(Fixture.suppliers(Map.of()), RETENTION);
        var task = Fixture.task(dir, 0);
        store.init(task, store);
        task.restoreWithHeaders("sessions", sessions(0, 20));
        task.restoreWithHeaders("sessions", sessions(30, 40));
        List<Windowed<Bytes>> found =
                all(store.fetch(key("k"))).stream().map(entry -> entry.key).toList();
        assertEquals(
                List.of(
                        new Windowed<>(key("k"), new SessionWindow(38 * MINUTE, 38 * MINUTE)),
                        new Windowed<>(key("k"), new SessionWindow(39 * MINUTE, 39 * MINUTE))),
                found);
        store.close();
    }

    @Test
    void aRestoreMayHaveMoreBytesThanABatchMay() {
        // A batch has a quarter of the budget at most.
        var suppliers = Fixture.suppliers(Map.of(EskerDslStoreSuppliers.MEMORY_BYTES, "64MiB"));
        var store =
                suppliers
                        .keyValueStore(
                                new DslKeyValueParams("kv", false))
                        .get();
        var task = Fixture.task(dir, 0);
        store.init(task, store);
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int number = 0; number < 40; number++) {
            records.add(changelog(value(number), new byte[1 << 20], number));
        }
        task.restoreWithHeaders("kv", records);
        assertEquals(40, all(store.all()).size());
        store.close();
    }

    @Test
    void thePositionIsThatOfTheInputAndOutlivesARestart() {
        var store = Fixture.windowStore(Fixture.suppliers(Map.of()), RETENTION);
        var task = Fixture.task(dir, 0);
        store.init(task, store);
        task.restoreWithHeaders("windows", windows(0, 1));
        assertEquals(Position.emptyPosition(), store.getPosition(), "not that of the changelog");

        task.setRecordContext(new ProcessorRecordContext(1, 7, 0, "input", new RecordHeaders()));
        store.put(key("k"), value(1), MINUTE);
        Position expected = Position.emptyPosition().withComponent("input", 0, 7);
        assertEquals(expected, store.getPosition());
        task.commit();
        store.close();

        var reopened = Fixture.windowStore(Fixture.suppliers(Map.of()), RETENTION);
        reopened.init(Fixture.task(dir, 0), reopened);
        assertEquals(expected, reopened.getPosition());
        reopened.close();
    }

    private static void copy(Path from, Path to) throws IOException {
        try (Stream<Path> paths = Files.walk(from)) {
            for (Path path : paths.toList()) {
                Files.copy(path, to.resolve(from.relativize(path).toString()));
            }
        }
    }

    /** Kafka deletes the stores of a task without a checkpoint, and restores them. */
    @Test
    void withExactlyOnceProcessingNoCheckpointIsLeftOfAKilledStore() throws Exception {
        Map<String, Object> exactly =
                Map.of(
                        StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
                        StreamsConfig.EXACTLY_ONCE_V2);
        Path first = Files.createDirectory(dir.resolve("first"));
        var params = new DslKeyValueParams("kv", false);
        var store = Fixture.suppliers(Map.of()).keyValueStore(params).get();
        var task = Fixture.task(first, 0, exactly);
        store.init(task, store);
        Path checkpoint = first.resolve(".checkpoint");
        store.put(key("k"), value(1));
        store.flush();
        store.close();
        Files.createFile(checkpoint);
        store.init(task, store);
        assertTrue(Files.exists(checkpoint), "it was closed after a commit");
        store.put(key("k"), value(2));
        for (Map<String, Object> configs : List.of(exactly, Map.<String, Object>of())) {
            Path killed = dir.resolve("killed" + configs.size());
            copy(first, killed);
            var next = Fixture.suppliers(Map.of()).keyValueStore(params).get();
            next.init(Fixture.task(killed, 0, configs), next);
            assertEquals(configs.isEmpty(), Files.exists(killed.resolve(".checkpoint")));
            assertArrayEquals(value(2), next.get(key("k")));
            next.close();
        }
        store.close();
        store.init(task, store);
        assertFalse(Files.exists(checkpoint), "no commit covered its last write");
        store.close();
    }
}
