package esker.cassandra;

import static org.junit.jupiter.api.Assertions.assertAll;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.function.Executable;

/**
 * Runs each of {@link Cases} on tables of Esker, of Cassandra's own trie memtable, and of Esker as
 * the primary store: before and after kills of the node and flushes.
 */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class CqlTest {
    private static final List<String> MEMTABLES = List.of("esker", "trie", "primary");
    private static final List<Cases.Case> CASES = Cases.all();

    /**
     * The client of the driver adds its timestamps, as a kill must not change the order of writes.
     */
    private static Node node;

    @BeforeAll
    static void start() throws Exception {
        Path dir = Path.of("target/nodes/cql");
        Node.delete(dir);
        // Cassandra's own memtable must survive the kill as well.
        node = new Node(dir, 1).with("commitlog_sync", "batch").with("commitlog_sync_period", null);
        node.start();
        try (Node.Client client = new Node.Client(node)) {
            client.run(
                    "CREATE KEYSPACE k WITH replication ="
                            + " {'class': 'SimpleStrategy', 'replication_factor': 1}");
            for (Cases.Case one : CASES) {
                for (String memtable : MEMTABLES) {
                    run(client, one.first, one, memtable);
                }
            }
        }
        // For those of a second.
        Node.pause(2000);
    }

    @AfterAll
    static void stop() {
        node.close();
    }

    private static String table(Cases.Case one, String memtable) {
        return "k." + one.name + "_" + memtable;
    }

    private static void run(
            Node.Client client, List<String> statements, Cases.Case one, String memtable) {
        for (String statement : statements) {
            // The keyword comes first, the name of the table after it.
            String named = statement.replaceFirst("^(CREATE|ALTER) TABLE ", "$1 WORD ");
            named = named.replace("TABLE", table(one, memtable)).replace("WORD", "TABLE");
            if (statement.startsWith("CREATE TABLE")) {
                String joint = statement.contains(" WITH ") ? " AND" : " WITH";
                named += joint + " memtable = '" + memtable + "'";
            }
            client.run(named);
        }
    }

    private static void check(boolean isAfterSecond) {
        try (Node.Client client = new Node.Client(node)) {
            List<Executable> checks = new ArrayList<>();
            for (Cases.Case one : CASES) {
                for (int i = 0; i < one.queries.size(); i++) {
                    List<String> expected =
                            (isAfterSecond ? one.afterSecond : one.afterFirst).get(i);
                    for (String memtable : MEMTABLES) {
                        String query = one.queries.get(i).replace("TABLE", table(one, memtable));
                        checks.add(() -> assertEquals(expected, client.rows(query), query));
                    }
                }
            }
            assertAll(checks);
        }
    }

    @Test
    @Order(1)
    void inTheMemtable() {
        check(false);
    }

    @Test
    @Order(2)
    void afterAKill() {
        node.kill();
        node.start();
        check(false);
    }

    @Test
    @Order(3)
    void afterMoreWrites() {
        try (Node.Client client = new Node.Client(node)) {
            for (Cases.Case one : CASES) {
                for (String memtable : MEMTABLES) {
                    run(client, one.second, one, memtable);
                }
            }
        }
        check(true);
    }

    @Test
    @Order(4)
    void afterASecondKill() {
        node.kill();
        node.start();
        check(true);
    }

    @Test
    @Order(5)
    void afterAFlush() {
        node.flush("k");
        check(true);
    }

    /** Cassandra builds indexes from SSTables. */
    @Test
    @Order(6)
    void aPrimaryTableHasNoSSTables() {
        List<Executable> checks = new ArrayList<>();
        for (Cases.Case one : CASES) {
            boolean hasIndex = one.name.endsWith("index");
            long tables = node.beans().sstables("k", one.name + "_primary");
            checks.add(() -> assertEquals(hasIndex, tables > 0, one.name));
        }
        assertAll(checks);
    }

    @Test
    @Order(7)
    void afterAFlushAndAKill() {
        node.kill();
        node.start();
        check(true);
    }
}
