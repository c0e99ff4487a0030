package esker.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.Session;
import com.datastax.driver.core.exceptions.DriverException;

import org.junit.jupiter.api.Test;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Kills a node under load, starts it, and compares every row with what was acknowledged. Meanwhile
 * the memtables are flushed, tables are truncated, altered, dropped, and switched to another
 * memtable and back.
 *
 * <p>{@code -Drounds=N} sets the number of kills, {@code -Dseed=N} what is written.
 */
class KillTest {
    private static final int ROUNDS = Integer.getInteger("rounds", 3);
    private static final long SEED = Long.getLong("seed", 1);
    private static final int WRITERS = 12;
    private static final int PARTITIONS = 100;

    private final Random random = new Random(SEED);
    private final List<Model> rows = new ArrayList<>();
    private final Model truncated = new Model("k.truncated", 0, PARTITIONS, SEED + 100);
    private final Model moving = new Model("k.moving", 0, PARTITIONS, SEED + 200);
    private AtomicBoolean isOver;

    private static String create(String table) {
        return "CREATE TABLE IF NOT EXISTS "
                + table
                + " (p int, c int, v int, w text, PRIMARY KEY (p, c)) WITH memtable = 'esker'";
    }

    @Test
    void everyAcknowledgedRowSurvives() throws Exception {
        Path dir = Path.of("target/nodes/kill");
        Node.delete(dir);
        // Table "moving" is in Cassandra's own memtable at times, which must survive the kill, too.
        try (Node node = new Node(dir, 1).with("commitlog_sync", "batch")) {
            node.with("commitlog_sync_period", null).start();
            try (Cluster cluster = node.connect();
                    Session session = cluster.connect()) {
                session.execute(
                        "CREATE KEYSPACE k WITH replication ="
                                + " {'class': 'SimpleStrategy', 'replication_factor': 1}");
                for (String table : List.of("k.rows", "k.truncated", "k.moving")) {
                    session.execute(create(table));
                }
            }
            for (int i = 0; i < WRITERS; i++) {
                rows.add(new Model("k.rows", i * PARTITIONS, PARTITIONS, SEED + i));
            }
            for (int round = 1; round <= ROUNDS; round++) {
                loadAndKill(node, 1500 + random.nextInt(3000));
                if (random.nextInt(4) == 0) {
                    node.startAndKill(3000 + random.nextInt(4000));
                }
                node.start();
                assertEquals(List.of(), check(node), "round " + round + ", seed " + SEED);
            }
            System.out.println(
                    ROUNDS + " kills, " + acknowledged() + " acknowledged writes, none lost");
        }
    }

    private long acknowledged() {
        return rows.stream().mapToLong(Model::acknowledged).sum()
                + truncated.acknowledged()
                + moving.acknowledged();
    }

    private List<String> check(Node node) {
        List<String> faults = new ArrayList<>();
        try (Cluster cluster = node.connect();
                Session session = cluster.connect()) {
            rows.forEach(model -> faults.addAll(model.check(session)));
            faults.addAll(truncated.check(session));
            faults.addAll(moving.check(session));
        }
        return faults;
    }

    private void loadAndKill(Node node, int millis) throws Exception {
        isOver = new AtomicBoolean();
        List<Thread> threads = new ArrayList<>();
        try (Cluster cluster = node.connect();
                Session session = cluster.connect()) {
            for (Model model : rows) {
                threads.add(writer(session, "k.rows", model, 0));
            }
            threads.add(writer(session, "k.truncated", truncated, 100));
            threads.add(writer(session, "k.moving", moving, 0));
            threads.add(new Thread(() -> change(session, random.nextLong())));
            threads.add(new Thread(() -> flush(node, random.nextLong())));
            threads.forEach(Thread::start);
            Node.pause(millis);
            node.kill();
            isOver.set(true);
            for (Thread thread : threads) {
                thread.join();
            }
        }
    }

    /**
     * Writes until a write is not acknowledged. Truncates after so many writes, if that is not 0.
     */
    private Thread writer(Session session, String table, Model model, int truncateEvery) {
        Model.Statements statements = new Model.Statements(session, table);
        return new Thread(
                () -> {
                    for (int i = 1; !isOver.get(); i++) {
                        boolean isDone =
                                truncateEvery > 0 && i % truncateEvery == 0
                                        ? model.truncate(session)
                                        : model.write(statements);
                        if (!isDone) {
                            return;
                        }
                    }
                });
    }

    private void flush(Node node, long seed) {
        Random chance = new Random(seed);
        try {
            while (!isOver.get()) {
                Node.pause(chance.nextInt(1500));
                node.flush("k");
            }
        } catch (IllegalStateException error) {
            // The node was killed.
        }
    }

    private void change(Session session, long seed) {
        Random chance = new Random(seed);
        String[] changes = {
            "ALTER TABLE k.moving WITH memtable = 'trie'",
            "ALTER TABLE k.moving WITH memtable = 'esker'",
            "ALTER TABLE k.rows ADD IF NOT EXISTS x int",
            "ALTER TABLE k.rows DROP IF EXISTS x",
            create("k.temporary"),
            "INSERT INTO k.temporary (p, c, v, w) VALUES (1, 1, 1, 'w1')",
            "DROP TABLE IF EXISTS k.temporary",
        };
        for (int i = chance.nextInt(changes.length); !isOver.get(); i++) {
            try {
                session.execute(changes[i % changes.length]);
            } catch (DriverException error) {
                // The node was killed, or there is no such table at present.
            }
            Node.pause(chance.nextInt(400));
        }
    }
}
