package esker;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

class DbTest {
    @TempDir Path dir;
    private Db db;
    private Keyspace users;

    @BeforeEach
    void open() {
        db = Db.open(dir.resolve("data"));
        users = db.keyspace("users");
    }

    @AfterEach
    void close() {
        db.close();
    }

    private static byte[] b(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String s(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    private static List<String> keys(Scan scan) {
        List<String> keys = new ArrayList<>();
        try (scan) {
            scan.forEachRemaining(entry -> keys.add(s(entry.key())));
        }
        return keys;
    }

    @Test
    void whatIsPutIsReadAgainAfterAnotherOpen() {
        users.put(b("ada"), b("analyst"));
        users.put(b("empty"), b(""));
        db.close();
        db = Db.openExisting(dir.resolve("data"), new Settings());
        users = db.openKeyspace("users");
        assertEquals("analyst", s(users.get(b("ada"))));
        assertArrayEquals(new byte[0], users.get(b("empty")));
        assertNull(users.get(b("grace")));
        assertTrue(users.contains(b("ada")));
        users.delete(b("ada"));
        assertFalse(users.contains(b("ada")));
        assertEquals(List.of("default", "users"), db.keyspaces().stream().sorted().toList());
    }

    @Test
    void aBatchIsAppliedToSeveralKeyspaces() {
        Keyspace other = db.keyspace("other");
        other.put(b("a"), b("0"));
        other.put(b("b"), b("0"));
        other.put(b("z"), b("0"));
        Batch batch = new Batch().sync(true);
        for (int i = 0; i < 500; i++) {
            batch.put(users, b("key " + i), b("x".repeat(i)));
        }
        batch.delete(other, b("z")).deleteRange(other, null, b("b")).put(users, b("t"), b("1"), 60_000);
        assertEquals(503, batch.size());
        db.write(batch);
        assertEquals(499, users.get(b("key 499")).length);
        assertEquals(501, keys(users.scan(Range.all())).size());
        assertEquals(List.of("b"), keys(other.scan(Range.all())));
        batch.clear();
        db.write(batch.deleteRange(users, b("key"), null));
        assertEquals(List.of(), keys(users.scan(Range.all())));
    }

    @Test
    void rangesAreReadInBothDirections() {
        for (String key : List.of("a", "ab", "b", "c", "d")) {
            users.put(b(key), b(key.toUpperCase()));
        }
        assertEquals(List.of("ab", "b"), keys(users.scan(Range.of(b("ab"), b("c")))));
        assertEquals(List.of("c", "b"), keys(users.scan(Range.closed(b("b"), b("c")).backward())));
        assertEquals(List.of("a", "ab"), keys(users.scan(Range.prefix(b("a")))));
        assertEquals(List.of("d", "c", "b", "ab", "a"), keys(users.scan(Range.all().backward())));
        assertEquals(List.of(), keys(users.scan(Range.of(b("c"), b("b")))));
        try (Scan scan = users.scan(Range.of(b("c"), null))) {
            assertEquals("c", s(scan.peekKey()));
            assertEquals("C", s(scan.next().value()));
            assertTrue(scan.hasNext());
            assertEquals("d", s(scan.next().key()));
            assertFalse(scan.hasNext());
            assertThrows(NoSuchElementException.class, scan::next);
            assertThrows(NoSuchElementException.class, scan::peekKey);
        }
    }

    @Test
    void keysSortByUnsignedBytes() {
        byte[][] keys = {{0}, {0, 0}, {1}, {127}, {-128}, {-1}, {-1, -1}};
        for (int i = keys.length - 1; i >= 0; i--) {
            users.put(keys[i], new byte[0]);
        }
        try (Scan scan = users.scan(Range.all())) {
            for (byte[] key : keys) {
                assertArrayEquals(key, scan.next().key());
            }
            assertFalse(scan.hasNext());
        }
        try (Scan scan = users.scan(Range.prefix(new byte[] {-1}))) {
            assertArrayEquals(keys[5], scan.next().key());
            assertArrayEquals(keys[6], scan.next().key());
            assertFalse(scan.hasNext());
        }
    }

    @Test
    void manyEntriesComeInChunks() {
        Batch batch = new Batch();
        for (int i = 0; i < 30_000; i++) {
            batch.put(users, b(String.format("%06d", i)), b("value " + i));
        }
        db.write(batch);
        int next = 0;
        try (Scan scan = users.scan(Range.all())) {
            users.delete(b("020000"));
            while (scan.hasNext()) {
                Entry entry = scan.next();
                assertEquals(String.format("%06d", next), s(entry.key()));
                assertEquals("value " + next++, s(entry.value()));
            }
        }
        assertEquals(30_000, next);
        users.put(b("020000"), b("value 20000"));
        for (String key : keys(users.scan(Range.all().backward()))) {
            assertEquals(String.format("%06d", --next), key);
        }
        assertEquals(0, next);
    }

    @Test
    void aSnapshotDoesNotSeeLaterWrites() {
        users.put(b("a"), b("1"));
        try (Snapshot before = db.snapshot()) {
            users.put(b("a"), b("2"));
            users.put(b("b"), b("2"));
            assertEquals("1", s(before.get(users, b("a"))));
            assertEquals(List.of("a"), keys(before.scan(users, Range.all())));
        }
        assertEquals(List.of("a", "b"), keys(users.scan(Range.all())));
    }

    @Test
    void aTransactionCommitsOrRollsBack() {
        users.put(b("a"), b("1"));
        try (Transaction tx = db.begin()) {
            tx.put(users, b("b"), b("2"));
            tx.setSavepoint();
            tx.delete(users, b("a"));
            tx.rollbackToSavepoint();
            assertEquals(List.of("b", "a"), keys(tx.scan(users, Range.all().backward())));
            assertNull(users.get(b("b")));
            tx.commit();
            assertThrows(EskerException.class, tx::commit);
        }
        assertEquals("2", s(users.get(b("b"))));
        try (Transaction tx = db.begin()) {
            tx.put(users, b("c"), b("3"));
        }
        assertNull(users.get(b("c")));
    }

    @Test
    void aConflictIsAnExceptionOfItsOwn() {
        users.put(b("a"), b("1"));
        try (Transaction tx =
                db.begin(Transaction.Isolation.SERIALIZABLE, Transaction.Concurrency.OPTIMISTIC)) {
            assertEquals("1", s(tx.getForUpdate(users, b("a"))));
            tx.put(users, b("a"), b("3"));
            users.put(b("a"), b("2"));
            assertThrows(ConflictException.class, tx::commit);
        }
        String read =
                db.transact(
                        tx -> {
                            tx.put(users, b("a"), b("4"));
                            return s(tx.get(users, b("a")));
                        });
        assertEquals("4", read);
    }

    @Test
    void aScanOfATransactionGoesOnWhereItsChunkEnds() {
        try (Transaction tx = db.begin()) {
            for (int i = 0; i < 3_000; i++) {
                tx.put(users, b(String.format("%04d", i)), b("value"));
            }
            List<String> forwards = keys(tx.scan(users, Range.all()));
            assertEquals(3_000, forwards.size());
            List<String> backwards = keys(tx.scan(users, Range.all().backward()));
            java.util.Collections.reverse(backwards);
            assertEquals(forwards, backwards);
        }
    }

    @Test
    void aCheckpointIsADatabase() {
        users.put(b("a"), b("1"));
        db.checkpoint(dir.resolve("copy"));
        users.put(b("a"), b("2"));
        try (Db copy = Db.openReadOnly(dir.resolve("copy"), new Settings())) {
            assertEquals("1", s(copy.openKeyspace("users").get(b("a"))));
            assertThrows(
                    EskerException.class, () -> copy.openKeyspace("users").put(b("a"), b("3")));
        }
    }

    @Test
    void databasesShareResources() {
        try (Resources shared = new Resources(64 << 20, 1)) {
            Settings settings = new Settings().set("segment_bytes", "4MiB").resources(shared);
            try (Db one = Db.open(dir.resolve("one"), settings);
                    Db two = Db.open(dir.resolve("two"), settings)) {
                one.defaultKeyspace().put(b("a"), b("1"));
                two.defaultKeyspace().put(b("a"), b("2"));
                one.flush();
                assertEquals("1", s(one.defaultKeyspace().get(b("a"))));
                assertTrue(shared.chargedBytes() > 0);
            }
        }
    }

    @Test
    void mergesAndStatistics() {
        Keyspace counts = db.keyspace("counts", new Settings().set("merge", "append"));
        counts.merge(b("a"), b("1"));
        counts.merge(b("a"), b("2"));
        assertEquals("12", s(counts.get(b("a"))));
        db.flush();
        db.sync();
        assertTrue(db.usedBytes() > 0);
        assertFalse(db.stats().isEmpty());
        assertTrue(db.prometheus("mine").contains("database=\"mine\""));
    }

    @Test
    void whatIsClosedIsRejected() throws Exception {
        Snapshot snapshot = db.snapshot();
        Scan scan = users.scan(Range.all());
        Transaction tx = db.begin();
        db.close();
        db.close();
        assertThrows(ClosedException.class, () -> users.get(b("a")));
        assertThrows(ClosedException.class, () -> db.flush());
        assertThrows(EskerException.class, () -> snapshot.get(users, b("a")));
        assertThrows(EskerException.class, () -> tx.put(users, b("a"), b("1")));
        scan.close();
        tx.close();
        snapshot.close();
        assertThrows(ClosedException.class, () -> snapshot.get(users, b("a")));
        assertFalse(scan.hasNext());
        // The files are free.
        Db.open(dir.resolve("data")).close();
    }

    @Test
    void wrongArgumentsAreExceptions() throws Exception {
        assertThrows(NullPointerException.class, () -> users.get(null));
        assertThrows(NullPointerException.class, () -> users.put(b("a"), null));
        Settings unknown = new Settings().set("memory_byte", "1");
        String text =
                assertThrows(
                                IllegalArgumentException.class,
                                () -> Db.open(dir.resolve("other"), unknown))
                        .getMessage();
        assertTrue(text.contains("memory_bytes"), text);
        assertThrows(EskerException.class, () -> db.openKeyspace("none"));
        assertThrows(EskerException.class, () -> Db.open(dir.resolve("data")));
        Files.createDirectory(dir.resolve("files"));
        Files.writeString(dir.resolve("files/a"), "x");
        assertThrows(EskerException.class, () -> Db.open(dir.resolve("files")));
    }

    @Test
    void aBatchWithoutAKeyspaceIsNotDamaged() {
        Batch batch = new Batch().put(users, b("a"), b("1"));
        assertThrows(NullPointerException.class, () -> batch.put(null, b("b"), b("2")));
        batch.put(users, b("c"), b("3"));
        assertEquals(2, batch.size());
        db.write(batch);
        assertArrayEquals(b("1"), users.get(b("a")));
        assertArrayEquals(b("3"), users.get(b("c")));
    }

    @Test
    void namesThatAreNoTextAreRefused() {
        for (String name : List.of("a\ud800", "\udc00b")) {
            assertThrows(IllegalArgumentException.class, () -> db.keyspace(name));
            assertThrows(IllegalArgumentException.class, () -> db.openKeyspace(name));
        }
        assertEquals("\ud83d\ude00", db.keyspace("\ud83d\ude00").name());
    }

    @Test
    void aScanThatHasFailedFailsAgain() {
        Scan scan =
                new Scan() {
                    private int calls;

                    @Override
                    byte[] fetch(int maxBytes) {
                        if (calls++ == 0) {
                            throw new EskerException("damaged");
                        }
                        return null;
                    }
                };
        assertThrows(EskerException.class, scan::hasNext);
        assertThrows(EskerException.class, scan::hasNext);
        assertThrows(EskerException.class, scan::next);
    }

    @Test
    void whatIsNotClosedIsFreedAndCounted() throws Exception {
        long before = Leaks.count();
        leak();
        // The collector need not run at once, but it does run if it is asked often enough.
        while (Leaks.count() == before) {
            System.gc();
            Thread.yield();
        }
        assertEquals(before + 1, Leaks.count());
    }

    private void leak() {
        db.snapshot();
    }

    @Test
    void aPoolIsTheLog() throws Exception {
        Path file = Path.of("/dev/shm", "esker-java-" + ProcessHandle.current().pid());
        Pool pool = new Pool(file, true);
        Settings settings = new Settings().pool(pool);
        EskerException missing =
                assertThrows(EskerException.class, () -> Db.open(dir.resolve("pool"), settings));
        assertTrue(missing.getMessage().contains(file.toString()), missing.getMessage());
        pool.create(8 << 20);
        try {
            assertThrows(EskerException.class, () -> pool.create(8 << 20));
            try (Db with = Db.open(dir.resolve("pool"), settings)) {
                with.keyspace("users").put(b("ada"), b("analyst"));
            }
            assertThrows(EskerException.class, () -> Db.open(dir.resolve("data"), settings));
            try (Db with = Db.openExisting(dir.resolve("pool"), settings)) {
                assertEquals("analyst", s(with.openKeyspace("users").get(b("ada"))));
            }
        } finally {
            Files.delete(file);
        }
    }

    @Test
    void theCallsUseTheInterfaceOfThisJava() {
        assertEquals(System.getProperty("esker.calls", "JNI"), Calls.kind());
    }

    @Test
    void keysAndValuesOfAllLengthsAreReadAgain() {
        int[] lengths = {0, 1, 30, 31, 100, 2_000, 4_095, 4_096, 4_097, 8_192, 60_000, 2_000_000};
        for (int ofKey : lengths) {
            if (ofKey == 0 || ofKey > 60_000) {
                continue;
            }
            byte[] key = new byte[ofKey];
            for (int ofValue : lengths) {
                byte[] value = new byte[ofValue];
                Arrays.fill(value, (byte) ofKey);
                users.put(key, value);
                assertArrayEquals(value, users.get(key));
                assertTrue(users.contains(key));
                try (Snapshot now = db.snapshot();
                        Scan scan = users.scan(Range.closed(key, key))) {
                    users.delete(key);
                    assertNull(users.get(key));
                    assertFalse(users.contains(key));
                    assertArrayEquals(value, now.get(users, key));
                    assertArrayEquals(value, scan.next().value());
                    assertFalse(scan.hasNext());
                }
                db.write(new Batch().put(users, key, value));
                assertArrayEquals(value, users.get(key));
            }
        }
        assertEquals(10, keys(users.scan(Range.all().backward())).size());
    }

    @Test
    void bothInterfacesFailAlike() {
        byte[] key = b("a");
        assertSame(() -> Native.get(0, key), () -> Calls.get(0, key));
        assertSame(() -> Native.get(0, null), () -> Calls.get(0, null));
        assertSame(() -> Native.contains(0, key), () -> Calls.contains(0, key));
        assertSame(() -> Native.put(0, key, key), () -> Calls.put(0, key, key));
        assertSame(() -> Native.put(0, key, null), () -> Calls.put(0, key, null));
        assertSame(() -> Native.delete(0, key), () -> Calls.delete(0, key));
        assertSame(() -> Native.snapshotGet(0, 0, key), () -> Calls.snapshotGet(0, 0, key));
        assertSame(() -> Native.fetch(0, false, 1), () -> Calls.fetch(0, false, 1));
        assertSame(() -> Native.write(0, key, 1, false), () -> Calls.write(0, key, 1, false));
        assertSame(
                () -> Native.scan(0, 0, key, true, null, true, false, 1),
                () -> Calls.scan(0, 0, key, true, null, true, false, 1));
        db.run(
                id ->
                        assertSame(
                                () -> Native.write(id, key, 1, false),
                                () -> Calls.write(id, key, 1, false)));
        byte[] tooLong = new byte[70_000];
        users.run(id -> assertSame(() -> Native.delete(id, tooLong), () -> Calls.delete(id, tooLong)));
    }

    private static void assertSame(Executable expected, Executable actual) {
        RuntimeException one = assertThrows(RuntimeException.class, expected);
        RuntimeException other = assertThrows(RuntimeException.class, actual);
        assertEquals(one.getClass(), other.getClass());
        assertEquals(one.getMessage(), other.getMessage());
    }

    @Test
    void threadsShareADatabaseThatIsClosedMeanwhile() throws Exception {
        int threads = 64;
        CountDownLatch started = new CountDownLatch(threads);
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<?>> results = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            byte[] key = b("key " + i);
            byte[] value = b("value " + i);
            results.add(
                    pool.submit(
                            () -> {
                                users.put(key, value);
                                started.countDown();
                                while (true) {
                                    assertArrayEquals(value, users.get(key));
                                    db.write(new Batch().put(users, key, value));
                                }
                            }));
        }
        started.await();
        db.close();
        for (Future<?> result : results) {
            ExecutionException failed = assertThrows(ExecutionException.class, result::get);
            assertTrue(failed.getCause() instanceof ClosedException, failed.toString());
        }
        pool.shutdown();
    }
}
