package esker.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** What a running node tells over JMX. */
class MetricsTest {
    private static final int WRITES = 100;
    private static final String VALUE = "v".repeat(100);

    private static Node node;

    @BeforeAll
    static void start() throws Exception {
        Path dir = Path.of("target/nodes/metrics");
        Node.delete(dir);
        node = new Node(dir, 1).start();
        try (Node.Client client = new Node.Client(node)) {
            client.run(RecoveryTest.KEYSPACE);
        }
    }

    @AfterAll
    static void stop() {
        node.close();
    }

    private static long of(String table, String name, String attribute) {
        String metric = "type=EskerMemtable,keyspace=k,scope=" + table + ",name=" + name;
        return node.beans().metric(metric, attribute);
    }

    private static long ofCassandra(String table, String name) {
        String metric = "type=Table,keyspace=k,scope=" + table + ",name=" + name;
        return node.beans().metric(metric, "Value");
    }

    private static int count(String table) {
        String pattern = "type=EskerMemtable,keyspace=k,scope=" + table + ",*";
        return node.beans().countMetrics(pattern);
    }

    private static void write(Node.Client client, String table) {
        for (int i = 0; i < WRITES; i++) {
            client.run(RecoveryTest.insert(table, 1, VALUE + i));
        }
    }

    @Test
    void writesReadsAndFoldsAreCounted() {
        try (Node.Client client = new Node.Client(node)) {
            client.run(RecoveryTest.table("t", "esker"));
            write(client, "t");
            assertEquals(WRITES, of("t", "PutLatency", "Count"));
            assertTrue(of("t", "PutTotalLatency", "Count") > 0);
            assertEquals(0, of("t", "Folds", "Count"));
            String query = "SELECT * FROM k.t WHERE p = 1";
            assertEquals(List.of("1 " + VALUE + (WRITES - 1)), client.rows(query));
            client.rows(query);
            assertEquals(1, of("t", "Folds", "Count"));
            assertEquals(2, of("t", "UpdatesPerRead", "Count"));
            assertEquals(1, of("t", "UpdatesPerRead", "Min"));
            assertTrue(of("t", "UpdatesPerRead", "Max") >= WRITES);

            assertEquals(WRITES, ofCassandra("t", "MemtableColumnsCount"));
            assertTrue(ofCassandra("t", "MemtableLiveDataSize") >= WRITES * VALUE.length());
            assertTrue(ofCassandra("t", "MemtableOffHeapDataSize") >= WRITES * VALUE.length());
        }
    }

    @Test
    void theDatabaseOfTheNodeIsMeasured() {
        String scope = node.dir().resolve("esker").toString();
        try (Node.Client client = new Node.Client(node)) {
            client.run(RecoveryTest.table("bytes", "esker"));
            String logBytes = "type=Esker,scope=" + scope + ",name=LogBytes";
            long before = node.beans().metric(logBytes, "Value");
            write(client, "bytes");
            // The page of statistics is kept for a while.
            Node.pause(1000);
            assertTrue(node.beans().metric(logBytes, "Value") >= before + WRITES * VALUE.length());
            for (String name : List.of("MemoryBytes", "MemoryLimitBytes", "StorageBytes")) {
                String metric = "type=Esker,scope=" + scope + ",name=" + name;
                assertTrue(node.beans().metric(metric, "Value") > 0, name);
            }
        }
    }

    @Test
    void aTableThatIsDroppedHasNone() {
        try (Node.Client client = new Node.Client(node)) {
            client.run(RecoveryTest.table("dropped", "esker"));
            client.run(RecoveryTest.table("joined", "trie"));
            assertEquals(0, count("joined"));
            client.run("ALTER TABLE k.joined WITH memtable = 'esker'");
            assertEquals(8, count("dropped"));
            assertEquals(8, count("joined"));
            client.run("DROP TABLE k.dropped", "DROP TABLE k.joined");
            assertEquals(0, count("dropped"));
            assertEquals(0, count("joined"));
        }
    }

    @Test
    void whatAStartFoundIsCounted() {
        try (Node.Client client = new Node.Client(node)) {
            client.run(RecoveryTest.table("recovered", "esker"));
            write(client, "recovered");
        }
        node.kill();
        node.start();
        assertEquals(WRITES, of("recovered", "RecoveredUpdates", "Count"));
        assertTrue(of("recovered", "RecoveredBytes", "Count") >= WRITES * VALUE.length());
        assertEquals(0, of("recovered", "PutLatency", "Count"));
    }
}
