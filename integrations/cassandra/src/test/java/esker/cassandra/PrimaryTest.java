package esker.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Tables whose rows Esker keeps. */
class PrimaryTest {
    private static final List<String> ROWS = List.of("1 a", "2 b");

    static Node node(String name) throws Exception {
        Path dir = Path.of("target/nodes/primary", name);
        Node.delete(dir);
        return new Node(dir, 1);
    }

    private static void create(Node.Client client, String... tables) {
        for (String table : tables) {
            client.run(RecoveryTest.table(table, "primary"));
            client.run(RecoveryTest.insert(table, 2, "b"), RecoveryTest.insert(table, 1, "a"));
        }
    }

    private static List<String> rows(Node.Client client, String table) {
        return client.rows("SELECT * FROM k." + table);
    }

    /** Returns the directories of a snapshot of a table. */
    private static Path snapshot(Node node, String table, String tag) throws Exception {
        try (Stream<Path> all = Files.walk(node.dir().resolve("data/k"))) {
            return all.filter(path -> path.toString().contains("/" + table + "-"))
                    .filter(path -> path.endsWith("snapshots/" + tag))
                    .findAny()
                    .orElseThrow();
        }
    }

    @Test
    void rowsStayInEsker() throws Exception {
        try (Node node = node("kept").start()) {
            try (Node.Client client = new Node.Client(node)) {
                client.run(RecoveryTest.KEYSPACE);
                create(client, "t", "truncated", "dropped", "period");
                client.run("ALTER TABLE k.t ADD x int", "ALTER TABLE k.t DROP x");
                client.run("ALTER TABLE k.period WITH memtable_flush_period_in_ms = 100");
                client.run("TRUNCATE k.truncated", RecoveryTest.insert("truncated", 3, "new"));
                client.run("DROP TABLE k.dropped");
            }
            node.flush("k");
            node.kill();
            assertEquals(5, RecoveryTest.entries(node));
            // The second start finds rows of two runs.
            for (int i = 1; i <= 2; i++) {
                node.start();
                try (Node.Client client = new Node.Client(node)) {
                    assertEquals(ROWS, rows(client, "t"));
                    assertEquals(ROWS, rows(client, "period"));
                    assertEquals(List.of("3 new"), rows(client, "truncated"));
                    client.run(RecoveryTest.insert("t", 2, "b"));
                }
                for (String table : List.of("t", "truncated", "period")) {
                    assertEquals(0, node.beans().sstables("k", table), table);
                }
                node.beans()
                        .storage(
                                storage -> {
                                    storage.drain();
                                    return null;
                                });
                node.kill();
                assertEquals(5 + i, RecoveryTest.entries(node));
            }
        }
    }

    private static String id(Node.Client client, String table) {
        String where = " WHERE keyspace_name = 'k' AND table_name = '" + table + "'";
        return client.rows("SELECT id FROM system_schema.tables" + where).get(0);
    }

    @Test
    void rowsStayWhenTheSchemaIsLost() throws Exception {
        try (Node node = node("schema").start()) {
            String lost;
            String forgotten;
            try (Node.Client client = new Node.Client(node)) {
                client.run(RecoveryTest.KEYSPACE);
                create(client, "t", "forgotten");
                lost = id(client, "t");
                forgotten = id(client, "forgotten");
            }
            node.kill();
            // The commit log has the schema, too.
            Node.delete(node.dir().resolve("data/system_schema"));
            Node.delete(node.dir().resolve("commitlog"));
            node.start();
            try (Node.Client client = new Node.Client(node)) {
                client.run(RecoveryTest.KEYSPACE);
                create(client, "other");
            }
            node.kill();
            node.start();
            try (Node.Client client = new Node.Client(node)) {
                String table = RecoveryTest.table("t", "primary");
                client.run(table + " AND id = " + lost);
                assertEquals(ROWS, rows(client, "t"));
                assertThrows(IllegalStateException.class, () -> node.beans().forget(lost));
                node.beans().forget(forgotten);
            }
            node.kill();
            assertEquals(4, RecoveryTest.entries(node));
        }
    }

    @Test
    void aSnapshotCanBeImported() throws Exception {
        try (Node node = node("snapshot").start()) {
            try (Node.Client client = new Node.Client(node)) {
                client.run(RecoveryTest.KEYSPACE);
                create(client, "t");
                node.beans()
                        .storage(
                                storage -> {
                                    storage.takeSnapshot("mine", Map.of(), "k.t");
                                    return null;
                                });
                assertEquals(0, node.beans().sstables("k", "t"));
                client.run("TRUNCATE k.t", RecoveryTest.insert("t", 3, "new"));
                assertEquals(List.of("3 new"), rows(client, "t"));
                Path snapshot = snapshot(node, "t", "mine");
                assertTrue(Files.exists(snapshot.resolve("manifest.json")));
                Path copy = node.dir().resolve("restore/k/t");
                Files.createDirectories(copy);
                try (Stream<Path> files = Files.list(snapshot)) {
                    for (Path file : files.toList()) {
                        Files.copy(file, copy.resolve(file.getFileName()));
                    }
                }
                node.beans()
                        .table(
                                "k",
                                "t",
                                table ->
                                        table.importNewSSTables(
                                                Set.of(copy.toString()),
                                                false,
                                                true,
                                                true,
                                                true,
                                                true,
                                                true));
                assertEquals(List.of("1 a", "2 b", "3 new"), rows(client, "t"));
            }
        }
    }

    /** Cassandra builds indexes from SSTables, so the rows move there. */
    @Test
    void aTableCanLeaveTheMode() throws Exception {
        try (Node node = node("left").start()) {
            try (Node.Client client = new Node.Client(node)) {
                client.run(RecoveryTest.KEYSPACE);
                create(client, "t", "indexed", "flushed");
                client.run(
                        "ALTER TABLE k.t WITH memtable = 'trie'",
                        "ALTER TABLE k.flushed WITH memtable = 'esker'",
                        "CREATE INDEX v ON k.indexed (v)");
                // The index is built in the background.
                while (client.rows("SELECT index_name FROM system.\"IndexInfo\"").isEmpty()) {
                    Node.pause(100);
                }
                node.flush("k");
                assertTrue(node.beans().sstables("k", "t") > 0);
                assertTrue(node.beans().sstables("k", "flushed") > 0);
                client.run(RecoveryTest.insert("indexed", 3, "a"));
            }
            node.kill();
            node.start();
            try (Node.Client client = new Node.Client(node)) {
                assertEquals(ROWS, rows(client, "t"));
                assertEquals(ROWS, rows(client, "flushed"));
                assertEquals(
                        List.of("1", "3"),
                        client.rows("SELECT p FROM k.indexed WHERE v = 'a'"));
                client.run("ALTER TABLE k.t WITH memtable = 'primary'");
                client.run(RecoveryTest.insert("t", 3, "c"));
                assertEquals(List.of("1 a", "2 b", "3 c"), rows(client, "t"));
            }
        }
    }

    @Test
    void aPurgeRemovesWhatIsDeletedAndExpired() throws Exception {
        try (Node node = node("purged").start()) {
            try (Node.Client client = new Node.Client(node)) {
                client.run(RecoveryTest.KEYSPACE);
                for (String table : List.of("now", "later")) {
                    create(client, table);
                    client.run(
                            "UPDATE k." + table + " SET v = 'c' WHERE p = 1",
                            "DELETE FROM k." + table + " WHERE p = 2",
                            "INSERT INTO k." + table + " (p, v) VALUES (3, 'x') USING TTL 1");
                }
                client.run("ALTER TABLE k.now WITH gc_grace_seconds = 0");
                // A tombstone is removed in the second after that of its deletion.
                Node.pause(3000);
                assertEquals(3, node.beans().purge("k", "now"));
                assertEquals(0, node.beans().purge("k", "now"));
                // The expired row becomes a tombstone.
                assertEquals(3, node.beans().purge("k", "later"));
                for (String table : List.of("now", "later")) {
                    assertEquals(List.of("1 c"), rows(client, table));
                    assertEquals(0, node.beans().sstables("k", table));
                }
            }
            node.kill();
            assertEquals(1 + 3, RecoveryTest.entries(node));
            node.start();
            try (Node.Client client = new Node.Client(node)) {
                assertEquals(List.of("1 c"), rows(client, "now"));
                assertEquals(List.of("1 c"), rows(client, "later"));
            }
        }
    }

    /** What an SSTable has must not come back. */
    @Test
    void aPurgeKeepsWhatHidesRowsOfSSTables() throws Exception {
        try (Node node = node("hidden").start();
                Node.Client client = new Node.Client(node)) {
            client.run(RecoveryTest.KEYSPACE, RecoveryTest.table("t", "trie"));
            client.run(RecoveryTest.insert("t", 1, "a"), RecoveryTest.insert("t", 2, "b"));
            client.run("ALTER TABLE k.t WITH memtable = 'primary' AND gc_grace_seconds = 0");
            node.flush("k");
            assertTrue(node.beans().sstables("k", "t") > 0);
            client.run("DELETE FROM k.t WHERE p = 2");
            Node.pause(3000);
            node.beans().purge("k", "t");
            assertEquals(List.of("1 a"), rows(client, "t"));
        }
    }

    /**
     * While a table changes its memtable, the commit log has the writes of all tables, and a start
     * replays them. The deletion comes after it, so the log does not have it.
     */
    private static void deleteAfterAChange(Node.Client client, int seconds) {
        client.run(RecoveryTest.KEYSPACE, RecoveryTest.table("other", "trie"));
        client.run("ALTER TABLE k.other WITH memtable = 'primary'");
        create(client, "t", "dropped");
        client.run("DROP TABLE k.dropped", "ALTER TABLE k.t WITH gc_grace_seconds = 0");
        Node.pause(1000 * seconds);
        client.run("DELETE FROM k.t WHERE p = 2");
        // The tombstone can be removed in a later second.
        Node.pause(1500);
    }

    private static Node changing(String name, int seconds) throws Exception {
        Node node = node(name).with("commitlog_sync", "batch").with("commitlog_sync_period", null);
        return node.property("-Desker.transition_seconds=" + seconds);
    }

    private static void assertDeletedAfterAKill(Node node) {
        node.kill();
        node.start();
        try (Node.Client client = new Node.Client(node)) {
            assertEquals(List.of("1 a"), rows(client, "t"));
        }
    }

    @Test
    void aPurgeKeepsWhatHidesRowsOfTheCommitLog() throws Exception {
        try (Node node = changing("logged", 20).start()) {
            try (Node.Client client = new Node.Client(node)) {
                deleteAfterAChange(client, 23);
                node.beans().purge("k", "t");
                node.kill();
            }
            assertDeletedAfterAKill(node);
        }
    }

    @Test
    void aPurgeRemovesRowsThatTheCommitLogHadDuringAChange() throws Exception {
        try (Node node = changing("unlogged", 10).start()) {
            try (Node.Client client = new Node.Client(node)) {
                deleteAfterAChange(client, 13);
                // A purge counts partitions, and Cassandra counts one less without SSTables.
                String count = "type=Table,keyspace=k,scope=t,name=EstimatedPartitionCount";
                for (int i = 0; i < 200 && node.beans().metric(count, "Value") != 0; i++) {
                    node.beans().purge("k", "t");
                    Node.pause(500);
                }
            }
            node.kill();
            assertEquals(1, RecoveryTest.entries(node));
            assertDeletedAfterAKill(node);
        }
    }

    /** The same for a table that Cassandra flushes, and a compaction. */
    @Test
    void aCompactionRemovesRowsThatTheCommitLogHadDuringAChange() throws Exception {
        try (Node node = changing("compacted", 2).start()) {
            try (Node.Client client = new Node.Client(node)) {
                client.run(RecoveryTest.KEYSPACE, RecoveryTest.table("other", "trie"));
                client.run("ALTER TABLE k.other WITH memtable = 'esker'");
                client.run(RecoveryTest.table("t", "esker"), RecoveryTest.insert("t", 1, "a"));
                client.run("ALTER TABLE k.t WITH gc_grace_seconds = 0");
                // What a start skips is recorded like a truncation.
                String id = id(client, "t");
                String skipped = "SELECT truncated_at FROM system.local";
                for (int i = 0; i < 100 && !client.rows(skipped).get(0).contains(id); i++) {
                    Node.pause(500);
                }
                client.run("DELETE FROM k.t WHERE p = 1");
                Node.pause(1500);
                node.flush("k");
                node.beans().table("k", "t", table -> {
                    table.forceMajorCompaction(false);
                    return null;
                });
                assertEquals(0, node.beans().sstables("k", "t"));
            }
            node.kill();
            node.start();
            try (Node.Client client = new Node.Client(node)) {
                assertEquals(List.of(), rows(client, "t"));
            }
        }
    }
}
