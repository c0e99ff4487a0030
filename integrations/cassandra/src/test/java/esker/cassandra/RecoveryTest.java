package esker.cassandra;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.exceptions.DriverException;
import esker.Db;
import esker.Scan;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** What the start of a node finds in Esker, and what it refuses. */
class RecoveryTest {
    static final String KEYSPACE =
            "CREATE KEYSPACE k WITH replication ="
                    + " {'class': 'SimpleStrategy', 'replication_factor': 1}";

    /** Returns a new node with the address 127.0.0.1. */
    Node node(String name) throws Exception {
        Path dir = Path.of("target/nodes", getClass().getSimpleName(), name);
        Node.delete(dir);
        return new Node(dir, 1);
    }

    static String table(String name, String memtable) {
        return "CREATE TABLE k."
                + name
                + " (p int PRIMARY KEY, v text) WITH memtable = '"
                + memtable
                + "'";
    }

    static String insert(String table, int p, String v) {
        return "INSERT INTO k." + table + " (p, v) VALUES (" + p + ", '" + v + "')";
    }

    /** Counts the rows in the database of a node that is not running. */
    static long entries(Node node) {
        try (Db db = Db.openReadOnly(node.dir().resolve("esker"), node.settings());
                Scan scan = db.openKeyspace("rows").scan(esker.Range.all())) {
            long count = 0;
            while (scan.hasNext()) {
                scan.next();
                count++;
            }
            return count;
        }
    }

    @Test
    void schemaChangesAreKept() throws Exception {
        try (Node node = node("schema").start()) {
            try (Node.Client client = new Node.Client(node)) {
                client.run(KEYSPACE);
                for (String name : List.of("kept", "dropped", "again", "truncated", "left")) {
                    client.run(table(name, "esker"), insert(name, 1, "old"));
                }
                client.run(table("joined", "trie"), insert("joined", 1, "old"));
                client.run(
                        "DROP TABLE k.dropped",
                        "DROP TABLE k.again",
                        table("again", "esker"),
                        insert("again", 2, "new"),
                        "TRUNCATE k.truncated",
                        insert("truncated", 2, "new"),
                        "ALTER TABLE k.left WITH memtable = 'trie'",
                        "ALTER TABLE k.joined WITH memtable = 'esker'",
                        insert("joined", 2, "new"));
            }
            node.kill();
            node.start();
            try (Node.Client client = new Node.Client(node)) {
                assertEquals(List.of("1 old"), client.rows("SELECT * FROM k.kept"));
                assertEquals(List.of("2 new"), client.rows("SELECT * FROM k.again"));
                assertEquals(List.of("2 new"), client.rows("SELECT * FROM k.truncated"));
                assertEquals(List.of("1 old"), client.rows("SELECT * FROM k.left"));
                assertEquals(List.of("1 old", "2 new"), client.rows("SELECT * FROM k.joined"));
                assertThrows(DriverException.class, () -> client.rows("SELECT * FROM k.dropped"));
                client.run("DROP TABLE k.kept", "TRUNCATE k.again");
            }
            node.flush("k");
            node.kill();
            node.start();
            node.kill();
            assertEquals(0, entries(node));
        }
    }

    @Test
    void truncationWithoutSnapshotIsKept() throws Exception {
        try (Node node = node("truncation").with("auto_snapshot", "false").start()) {
            try (Node.Client client = new Node.Client(node)) {
                client.run(KEYSPACE, table("t", "esker"));
                for (int i = 0; i < 500; i++) {
                    client.run(insert("t", i, "old"));
                }
                client.run("TRUNCATE k.t");
                client.run(table("indexed", "esker"), "CREATE INDEX ON k.indexed (v)");
                client.run(insert("indexed", 1, "old"), "TRUNCATE k.indexed");
            }
            node.kill();
            assertEquals(0, entries(node));
            node.start();
            try (Node.Client client = new Node.Client(node)) {
                assertEquals(List.of(), client.rows("SELECT * FROM k.t"));
                assertEquals(List.of(), client.rows("SELECT * FROM k.indexed"));
            }
        }
    }

    /** As if the node was killed after a change of the schema, and before that of the memtable. */
    @Test
    void rowsInTheCommitLogOfATableThatJoinedEskerAreReplayed() throws Exception {
        try (Node node = node("joined")) {
            node.with("commitlog_sync", "batch").with("commitlog_sync_period", null);
            node.memtable("changed", "TrieMemtable", Map.of()).start();
            try (Node.Client client = new Node.Client(node)) {
                client.run(KEYSPACE, table("t", "changed"), table("truncated", "changed"));
                client.run(insert("t", 1, "a"), insert("t", 2, "b"));
                client.run(insert("truncated", 1, "a"), "TRUNCATE k.truncated");
            }
            node.kill();
            node.memtable("changed", Node.MEMTABLE, node.parameters()).start();
            try (Node.Client client = new Node.Client(node)) {
                assertEquals(List.of("1 a", "2 b"), client.rows("SELECT * FROM k.t"));
                client.run(insert("t", 1, "new"));
            }
            node.kill();
            node.start();
            try (Node.Client client = new Node.Client(node)) {
                assertEquals(List.of("1 new", "2 b"), client.rows("SELECT * FROM k.t"));
                assertEquals(List.of(), client.rows("SELECT * FROM k.truncated"));
            }
        }
    }

    /** As if the node was killed before a flush of the memtable that was switched out had begun. */
    @Test
    void rowsOfATableThatLeftEskerAreMoved() throws Exception {
        try (Node node = node("moved").start()) {
            Path saved = node.dir().resolve("saved");
            try (Node.Client client = new Node.Client(node)) {
                client.run(KEYSPACE, table("t", "esker"), table("other", "esker"));
                client.run(insert("t", 1, "a"), insert("t", 2, "b"));
            }
            node.kill();
            node.save(saved);
            node.start();
            try (Node.Client client = new Node.Client(node)) {
                client.run("ALTER TABLE k.t WITH memtable = 'trie'", insert("t", 1, "new"));
            }
            node.flush("k");
            node.kill();
            Node.delete(node.dir().resolve("data/k"));
            node.restore(saved);
            node.start();
            try (Node.Client client = new Node.Client(node)) {
                assertEquals(List.of("1 new", "2 b"), client.rows("SELECT * FROM k.t"));
            }
            node.kill();
            assertEquals(0, entries(node));
            node.start();
            try (Node.Client client = new Node.Client(node)) {
                assertEquals(List.of("1 new", "2 b"), client.rows("SELECT * FROM k.t"));
            }
        }
    }

    @Test
    void aReadFoldsTheUpdatesOfAPartition() throws Exception {
        try (Node node = node("folded").start()) {
            try (Node.Client client = new Node.Client(node)) {
                client.run(KEYSPACE, table("t", "esker"));
                for (int i = 0; i < 300; i++) {
                    client.run(insert("t", 1, "v" + i));
                }
                assertEquals(List.of("1 v299"), client.rows("SELECT * FROM k.t WHERE p = 1"));
            }
            node.kill();
            assertEquals(1, entries(node));
            node.start();
            try (Node.Client client = new Node.Client(node)) {
                assertEquals(List.of("1 v299"), client.rows("SELECT * FROM k.t WHERE p = 1"));
            }
        }
    }

    @Test
    void aReadDoesNotWriteALargeUpdateAgainForAFewSmallOnes() throws Exception {
        String rows = "SELECT count(*) FROM k.t WHERE p = 1";
        try (Node node = node("large").start()) {
            try (Node.Client client = new Node.Client(node)) {
                client.run(
                        KEYSPACE,
                        "CREATE TABLE k.t (p int, c int, v text, PRIMARY KEY (p, c))"
                                + " WITH memtable = 'esker'");
                String insert = "INSERT INTO k.t (p, c, v) VALUES (1, ";
                client.run(insert + "0, '" + "x".repeat(20_000) + "')");
                for (int c = 1; c <= 100; c++) {
                    client.run(insert + c + ", 'v')");
                }
                assertEquals(List.of("101"), client.rows(rows));
            }
            node.kill();
            assertEquals(2, entries(node));
            node.start();
            try (Node.Client client = new Node.Client(node)) {
                assertEquals(List.of("101"), client.rows(rows));
            }
        }
    }

    @Test
    void anUnreadableRowOfAnIndexedTableStopsTheStart() throws Exception {
        try (Node node = node("unreadable").start()) {
            try (Node.Client client = new Node.Client(node)) {
                client.run(KEYSPACE);
                for (String name : List.of("first", "second", "third")) {
                    client.run(table(name, "esker"), "CREATE INDEX ON k." + name + " (v)");
                    client.run(insert(name, 1, "a"));
                }
            }
            node.kill();
            spoil(node);
            String log = node.startRefused();
            assertTrue(log.contains("ignorereplayerrors=true to drop it"), log);
            node.property("-Dcassandra.commitlog.ignorereplayerrors=true").start();
            try (Node.Client client = new Node.Client(node)) {
                for (String name : List.of("first", "second", "third")) {
                    String query = "SELECT * FROM k." + name + " WHERE v = 'a'";
                    assertEquals(List.of("1 a"), client.rows(query), name);
                }
            }
        }
    }

    /** As if the flush of the memtable that was switched out had failed. */
    @Test
    void truncatedRowsOfAFailedFlushDoNotComeBack() throws Exception {
        try (Node node = node("failedflush").start()) {
            Path saved = node.dir().resolve("saved");
            try (Node.Client client = new Node.Client(node)) {
                client.run(KEYSPACE, table("t", "esker"), insert("t", 1, "old"));
            }
            node.kill();
            markOut(node);
            node.save(saved);
            node.start();
            try (Node.Client client = new Node.Client(node)) {
                assertEquals(List.of("1 old"), client.rows("SELECT * FROM k.t"));
                client.run("TRUNCATE k.t");
            }
            node.kill();
            node.restore(saved);
            node.start();
            try (Node.Client client = new Node.Client(node)) {
                assertEquals(List.of(), client.rows("SELECT * FROM k.t"));
            }
        }
    }

    /** Marks the first row's generation as one that was switched out now. */
    private static void markOut(Node node) {
        try (Db db = Db.open(node.dir().resolve("esker"), node.settings());
                Scan scan = db.openKeyspace("rows").scan(esker.Range.all())) {
            byte[] mark = Keys.join("out".getBytes(UTF_8), Arrays.copyOf(scan.next().key(), 24));
            byte[] now = ByteBuffer.allocate(8).putLong(System.currentTimeMillis()).array();
            db.openKeyspace("node").put(mark, now);
        }
    }

    /** Adds a row that is no update to the first table of a node that is not running. */
    private static void spoil(Node node) {
        try (Db db = Db.open(node.dir().resolve("esker"), node.settings())) {
            esker.Keyspace rows = db.openKeyspace("rows");
            byte[] key;
            try (Scan scan = rows.scan(esker.Range.all())) {
                key = scan.next().key();
            }
            key[key.length - 1]++;
            rows.put(key, new byte[] {0});
        }
    }

    @Test
    void refusalsNameTheFile() throws Exception {
        Node first = node("first");
        Node second = node("second");
        try (first;
                second) {
            for (Node node : List.of(first, second)) {
                node.start();
                try (Node.Client client = new Node.Client(node)) {
                    client.run(KEYSPACE, table("t", "esker"), insert("t", 1, "a"));
                }
                node.kill();
            }
            String directory = first.dir().resolve("esker").toString();
            Map<String, String> parameters = new HashMap<>(first.parameters());
            parameters.put("directory", directory);
            second.memtable("esker", Node.MEMTABLE, parameters);
            String log = second.startRefused();
            assertTrue(log.contains(directory + " failed: it belongs to the node"), log);
            // No table of the second node has the ID of the first node's table.
            assertEquals(1, entries(first));

            first.property("-Desker.library=/nowhere/libesker_java.so");
            log = first.startRefused();
            assertTrue(log.contains("opening Esker's database"), log);
            assertTrue(log.contains("/nowhere/libesker_java.so"), log);
            first.withoutProperty("-Desker.library=/nowhere/libesker_java.so");

            first.memtable("default", Node.MEMTABLE, Map.of());
            log = first.startRefused();
            assertTrue(log.contains("do not make Esker the configuration \"default\""), log);
        }
    }
}
