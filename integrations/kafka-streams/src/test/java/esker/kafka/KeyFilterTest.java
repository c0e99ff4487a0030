package esker.kafka;

import static esker.kafka.Fixture.MINUTE;
import static esker.kafka.Fixture.all;
import static esker.kafka.Fixture.key;
import static esker.kafka.Fixture.value;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Filters of the keys in segments of time. */
class KeyFilterTest {
    private static final int KEYS = 100_000;
    private static final long MEMORY = 67 << 20;
    private static final long FILTERS = MEMORY / 8;
    private static final Map<String, Object> CONFIGS =
            Map.of(EskerDslStoreSuppliers.MEMORY_BYTES, String.valueOf(MEMORY));

    @TempDir Path dir;

    private static void fill(KeyFilter filter) {
        for (int number = 0; number < KEYS; number++) {
            filter.add(value(number), Long.BYTES);
        }
    }

    private static int found(KeyFilter filter, int first) {
        int found = 0;
        for (int number = first; number < first + KEYS; number++) {
            found += filter.mayHave(value(number)) ? 1 : 0;
        }
        return found;
    }

    @Test
    void allKeysAndFewOthersAreFound() {
        KeyFilter filter = new KeyFilter(new FilterMemory(1 << 20));
        assertEquals(0, found(filter, 0));
        fill(filter);
        assertEquals(KEYS, found(filter, 0));
        int others = found(filter, KEYS);
        assertTrue(others < KEYS / 50, others + " others");
    }

    @Test
    void keysThatComeAgainUseNoMemory() {
        KeyFilter filter = new KeyFilter(new FilterMemory(16 << 10));
        for (int number = 0; number < KEYS; number++) {
            filter.add(value(number % 1_000), Long.BYTES);
        }
        assertFalse(filter.mayHave(value(KEYS)));
    }

    @Test
    void withoutMemoryAllKeysAreFound() {
        FilterMemory memory = new FilterMemory(100 << 10);
        KeyFilter filter = new KeyFilter(memory);
        fill(filter);
        assertEquals(KEYS, found(filter, KEYS));
        assertTrue(memory.take(100 << 10), "all of it was given back");
    }

    private WindowBytesStore store() {
        var suppliers = Fixture.suppliers(CONFIGS);
        var store = (WindowBytesStore) Fixture.windowStore(suppliers, 2 * MINUTE);
        store.init(Fixture.task(dir, 0), store);
        return store;
    }

    private static int segments(WindowBytesStore store, String key) {
        return store.found(0, Long.MAX_VALUE, key(key).get()).size();
    }

    @Test
    void segmentsWithoutTheKeyAreSkipped() {
        var store = store();
        store.put(key("a"), value(1), 0);
        store.put(key("b"), value(2), 0);
        store.put(key("b"), value(3), MINUTE);
        assertEquals(1, segments(store, "a"));
        assertEquals(2, segments(store, "b"));
        assertEquals(0, segments(store, "c"));
        assertEquals(2, all(store.fetch(key("b"), 0, MINUTE)).size());
        store.close();
    }

    @Test
    void segmentsOfAnEarlierOpenAreRead() {
        var first = store();
        first.put(key("a"), value(1), 0);
        first.close();
        var store = store();
        store.put(key("b"), value(2), 0);
        store.put(key("b"), value(3), MINUTE);
        assertEquals(1, segments(store, "a"));
        assertEquals(1, all(store.fetch(key("a"), 0, MINUTE)).size());
        assertEquals(2, all(store.fetch(key("b"), 0, MINUTE)).size());
        store.close();
    }

    private static boolean isAllFree() {
        FilterMemory memory = new Shared(CONFIGS).filterMemory();
        boolean isFree = memory.take(FILTERS);
        if (isFree) {
            memory.give(FILTERS);
        }
        return isFree;
    }

    @Test
    void segmentsThatExpireAndStoresThatCloseGiveTheirMemoryBack() {
        var store = store();
        store.put(key("a"), value(1), 0);
        assertFalse(isAllFree());
        store.observe(10 * MINUTE);
        assertTrue(isAllFree(), "the segment has expired");
        store.put(key("a"), value(1), 10 * MINUTE);
        assertFalse(isAllFree());
        store.close();
        assertTrue(isAllFree(), "the store is closed");
    }
}
