package esker.kafka;

import static esker.kafka.Fixture.MINUTE;
import static esker.kafka.Fixture.all;
import static esker.kafka.Fixture.key;
import static esker.kafka.Fixture.value;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Queries from other threads, and what they see of closes, expiry and failures. */
class QueriesTest {
    @TempDir Path dir;

    @Test
    void anIteratorOfAClosedStoreHasNoEndButAnException() {
        var store = Fixture.keyValue(dir);
        for (int number = 0; number < 10; number++) {
            store.put(Bytes.wrap(value(number)), value(number));
        }
        KeyValueIterator<Bytes, byte[]> begun = store.all();
        begun.next();
        KeyValueIterator<Bytes, byte[]> ended = store.all();
        ended.close();
        store.close();
        assertThrows(InvalidStateStoreException.class, begun::hasNext);
        assertThrows(InvalidStateStoreException.class, begun::next);
        assertTrue(!ended.hasNext(), "its reader closed it");
        begun.close();
    }

    @Test
    void anIteratorOfAClosedWindowStoreThrowsForTheNextEntry() {
        var store = Fixture.windowStore(Fixture.suppliers(Map.of()), 10 * MINUTE);
        store.init(Fixture.task(dir, 0), store);
        store.put(key("a"), value(1), 0);
        store.put(key("b"), value(1), 0);
        var entries = store.all();
        entries.next();
        store.close();
        assertThrows(InvalidStateStoreException.class, entries::next);
        entries.close();
    }

    @Test
    void callsOfAClosedStoreThrowWhatKafkaExpects() {
        var store = Fixture.keyValue(dir.resolve("kv"));
        store.put(key("a"), value(1));
        var windows = Fixture.windowStore(Fixture.suppliers(Map.of()), 10 * MINUTE);
        windows.init(Fixture.task(dir.resolve("windows"), 0), windows);
        windows.put(key("a"), value(1), 0);
        store.close();
        windows.close();
        store.close();
        assertThrows(InvalidStateStoreException.class, () -> store.get(key("a")));
        assertThrows(InvalidStateStoreException.class, () -> store.put(key("a"), value(1)));
        assertThrows(InvalidStateStoreException.class, store::all);
        assertThrows(InvalidStateStoreException.class, store::approximateNumEntries);
        assertThrows(InvalidStateStoreException.class, () -> windows.fetch(key("a"), 0));
        assertThrows(InvalidStateStoreException.class, windows::all);
        assertThrows(InvalidStateStoreException.class, () -> windows.put(key("a"), null, 0));
    }

    @Test
    void aValueMayBeLargerThanASegment() {
        var store = Fixture.keyValue(dir);
        store.put(key("large"), new byte[20 << 20]);
        assertEquals(20 << 20, store.get(key("large")).length);
        store.close();
    }

    @Test
    void aKeyThatIsTooLargeIsAnExceptionOfKafka() {
        var store = Fixture.keyValue(dir);
        Bytes large = Bytes.wrap(new byte[(64 << 10) + 1]);
        var error = assertThrows(ProcessorStateException.class, () -> store.put(large, value(1)));
        assertTrue(error.getCause().getMessage().contains("key"), error.getCause().toString());
        store.close();
    }

    @Test
    void readersSeeNoErrorWhileSegmentsExpire() throws Exception {
        var store = Fixture.windowStore(Fixture.suppliers(Map.of()), 2 * MINUTE);
        store.init(Fixture.task(dir, 0), store);
        int minutes = 200;
        AtomicLong now = new AtomicLong();
        Callable<Void> reader =
                () -> {
                    while (now.get() < (minutes - 1) * MINUTE) {
                        store.fetch(key("k"), now.get() - MINUTE);
                        for (KeyValue<Windowed<Bytes>, byte[]> entry : all(store.all())) {
                            assertEquals(key("k"), entry.key.key());
                        }
                    }
                    return null;
                };
        ExecutorService threads = Executors.newFixedThreadPool(2);
        List<Future<Void>> readers = new ArrayList<>();
        for (int count = 0; count < 2; count++) {
            readers.add(threads.submit(reader));
        }
        for (int minute = 0; minute < minutes; minute++) {
            store.put(key("k"), value(minute), minute * MINUTE);
            now.set(minute * MINUTE);
        }
        for (Future<Void> each : readers) {
            each.get();
        }
        threads.shutdown();
        assertEquals(2, all(store.all()).size());
        store.close();
    }

    @Test
    void readersOfAnExpiredSegmentGoOn() {
        var store = Fixture.windowStore(Fixture.suppliers(Map.of()), 2 * MINUTE);
        store.init(Fixture.task(dir, 0), store);
        store.put(key("k"), value(0), 0);
        store.put(key("k"), value(1), MINUTE);
        // Its segments are opened one by one, and both have expired when it gets to them.
        var entries = store.all();
        store.put(key("k"), value(9), 9 * MINUTE);
        assertEquals(0, all(entries).size());
        assertArrayEquals(value(9), store.fetch(key("k"), 9 * MINUTE));
        store.close();
    }

    @Test
    void sessionsThatAskForNoStartAreEmpty() {
        var store = Fixture.sessionStore(Fixture.suppliers(Map.of()), 2 * MINUTE);
        store.init(Fixture.task(dir, 0), store);
        store.put(new Windowed<>(key("k"), new SessionWindow(0, 0)), value(0));
        assertEquals(0, all(store.findSessions(key("k"), 0, -1)).size());
        store.close();
    }

    @Test
    void settingsMayHaveUnits() {
        Map<String, Object> settings =
                Map.of(
                        EskerDslStoreSuppliers.MEMORY_BYTES, "128MiB",
                        EskerDslStoreSuppliers.SEGMENT_BYTES, 8 << 20);
        assertEquals("8388608", new Shared(settings).segmentBytes());
        for (String wrong : List.of("", "-1", "0", "much", "1e9", "99999999999GiB", "MiB")) {
            Map<String, Object> given = Map.of(EskerDslStoreSuppliers.MEMORY_BYTES, wrong);
            assertThrows(ConfigException.class, () -> new Shared(given), wrong);
        }
    }
}
