package esker.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.exceptions.DriverException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** How rows that Esker keeps reach another node. */
class PrimaryStreamTest {
    private static final int ROWS = 200;
    private static final int READ_ATTEMPTS = 100;
    private static final String PUTS =
            "type=EskerMemtable,keyspace=k,scope=t,name=PutLatency";

    private static Node node(String name, int number) throws Exception {
        Path dir = Path.of("target/nodes/stream", name + number);
        Node.delete(dir);
        return new Node(dir, number, 1).with("hinted_handoff_enabled", "false");
    }

    private static void create(Node.Client client, int copies) {
        client.run(
                "CREATE KEYSPACE k WITH replication ="
                        + " {'class': 'SimpleStrategy', 'replication_factor': "
                        + copies
                        + "}",
                RecoveryTest.table("t", "primary"));
    }

    private static void insert(Node.Client client, int from) {
        for (int i = from; i < from + ROWS; i++) {
            client.run(RecoveryTest.insert("t", i, "v" + i));
        }
    }

    /** Counts the rows. Reads again if the node does not know yet that the other one is down. */
    private static long count(Node.Client client) {
        for (int attempt = 1; ; attempt++) {
            try {
                return Long.parseLong(client.rows("SELECT count(*) FROM k.t").get(0));
            } catch (DriverException error) {
                if (attempt == READ_ATTEMPTS) {
                    throw error;
                }
                Node.pause(500);
            }
        }
    }

    /** Returns the files of SSTables in the directory of the table. */
    private static List<Path> files(Node node) throws Exception {
        try (Stream<Path> all = Files.walk(node.dir().resolve("data/k"))) {
            return all.filter(path -> path.toString().endsWith("-Data.db")).toList();
        }
    }

    @Test
    void aRepairBringsRows() throws Exception {
        try (Node first = node("repair", 1);
                Node second = node("repair", 2)) {
            first.start();
            second.start();
            try (Node.Client client = new Node.Client(first)) {
                create(client, 2);
                for (boolean isIncremental : List.of(false, true)) {
                    second.kill();
                    insert(client, isIncremental ? ROWS : 0);
                    second.start();
                    second.beans().repair("k", isIncremental);
                }
            }
            for (Node node : List.of(first, second)) {
                assertEquals(0, node.beans().sstables("k", "t"));
            }
            first.kill();
            try (Node.Client client = new Node.Client(second)) {
                assertEquals(2 * ROWS, count(client));
            }
            second.kill();
            // A start deletes what the repair has left.
            assertFalse(files(first).isEmpty());
            first.start();
            assertEquals(List.of(), files(first));
            assertEquals(0, first.beans().sstables("k", "t"));
        }
    }

    @Test
    void aJoinAndADecommissionMoveRows() throws Exception {
        try (Node first = node("join", 1);
                Node second = node("join", 2).with("auto_bootstrap", "true")) {
            first.start();
            try (Node.Client client = new Node.Client(first)) {
                create(client, 1);
                insert(client, 0);
            }
            second.start();
            try (Node.Client client = new Node.Client(second)) {
                assertEquals(ROWS, count(client));
                insert(client, ROWS);
                first.beans().cleanup("k", "t");
                assertEquals(2 * ROWS, count(client));
            }
            assertTrue(second.beans().metric(PUTS, "Count") > 0);
            second.beans()
                    .storage(
                            storage -> {
                                storage.decommission(true);
                                return null;
                            });
            second.kill();
            try (Node.Client client = new Node.Client(first)) {
                assertEquals(2 * ROWS, count(client));
            }
            assertEquals(0, first.beans().sstables("k", "t"));
            // They are deleted some time after their use.
            for (int i = 0; i < 600 && !files(first).isEmpty(); i++) {
                Node.pause(200);
            }
            assertEquals(List.of(), files(first));
        }
    }
}
