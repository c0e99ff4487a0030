package esker.cassandra;

import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.Session;
import com.datastax.driver.core.Statement;
import com.datastax.driver.core.exceptions.DriverException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A cluster on loopback addresses: load at QUORUM, kill a node under load, read all acknowledged
 * rows at QUORUM, start it again, repair it, kill all nodes at once, and read again. Fails if a row
 * is lost.
 */
final class Demo {
    private static final int WRITERS = 8;
    private static final int ROW_BYTES = 200;
    private static final int READ_ATTEMPTS = 100;
    private static final long READ_PAUSE_MILLIS = 500;

    private final List<Node> nodes = new ArrayList<>();
    private final Map<Integer, Integer> acknowledged = new ConcurrentHashMap<>();
    private final AtomicInteger next = new AtomicInteger();
    private final AtomicLong unacknowledged = new AtomicLong();
    private final long begun = System.nanoTime();
    private volatile boolean isStopped;
    private volatile boolean isFailed;

    /** Arguments: directory, number of nodes, seconds of load. */
    public static void main(String[] arguments) throws Exception {
        Path dir = Path.of(arguments[0]);
        int nodes = Integer.parseInt(arguments[1]);
        int seconds = Integer.parseInt(arguments[2]);
        Demo demo = new Demo();
        // Ctrl-C runs it, too. Only a failure leaves the files, with the logs of the nodes.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> demo.stop(dir)));
        Node.delete(dir);
        int status = 0;
        try {
            demo.run(dir, nodes, seconds);
        } catch (RuntimeException error) {
            if (!demo.isStopped) {
                demo.isFailed = true;
                error.printStackTrace();
            }
            status = 1;
        }
        // Threads of the driver may go on for a while.
        System.exit(status);
    }

    private void stop(Path dir) {
        isStopped = true;
        Node.stopAll();
        try {
            if (!isFailed) {
                Node.delete(dir);
            }
        } catch (IOException error) {
            System.err.println(dir + " was not removed: " + error);
        }
    }

    private void say(String format, Object... values) {
        System.out.printf("%4d s  ", (System.nanoTime() - begun) / 1_000_000_000);
        System.out.printf(format + "%n", values);
    }

    private void run(Path dir, int count, int seconds) throws InterruptedException {
        for (int i = 1; i <= count; i++) {
            Node node = new Node(dir.resolve("node" + i), i, 1);
            nodes.add(node);
            node.start();
            say("node %d at %s serves clients", i, node.address());
        }
        int copies = Math.min(3, count);
        Node last = nodes.get(count - 1);
        try (Cluster cluster = Node.client(nodes);
                Session session = cluster.connect()) {
            session.execute(
                    "CREATE KEYSPACE demo WITH replication ="
                            + " {'class': 'SimpleStrategy', 'replication_factor': "
                            + copies
                            + "}");
            session.execute(
                    "CREATE TABLE demo.rows (id int PRIMARY KEY, version int, filler text)"
                            + " WITH memtable = 'esker'");
            say("created a table on Esker, %d copies of each row", copies);
            load(session, seconds);
            say("%d writes acknowledged at QUORUM", acknowledged.size());
            if (copies == 3) {
                AtomicBoolean isOver = new AtomicBoolean();
                Thread killer =
                        new Thread(
                                () -> {
                                    Node.pause(1000);
                                    last.kill();
                                    isOver.set(true);
                                });
                killer.start();
                load(session, seconds);
                killer.join();
                say(
                        "killed node %d under load: %d writes acknowledged, %d not",
                        count, acknowledged.size(), unacknowledged.get());
                check(session);
                last.start();
                say("node %d serves clients again", count);
                repair(last);
                check(session);
            }
        }
        nodes.forEach(Node::kill);
        say("killed all nodes");
        nodes.forEach(Node::startLater);
        nodes.forEach(Node::await);
        try (Cluster cluster = Node.client(nodes);
                Session session = cluster.connect()) {
            check(session);
        }
        say("no acknowledged row is lost");
    }

    private void load(Session session, int seconds) throws InterruptedException {
        PreparedStatement insert =
                session.prepare("INSERT INTO demo.rows (id, version, filler) VALUES (?, ?, ?)");
        insert.setConsistencyLevel(ConsistencyLevel.QUORUM);
        String filler = "x".repeat(ROW_BYTES);
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < WRITERS; i++) {
            threads.add(
                    new Thread(
                            () -> {
                                while (System.nanoTime() < end) {
                                    int id = next.getAndIncrement();
                                    try {
                                        session.execute(insert.bind(id, id * 7, filler));
                                        acknowledged.put(id, id * 7);
                                    } catch (DriverException error) {
                                        unacknowledged.incrementAndGet();
                                    }
                                }
                            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private void check(Session session) {
        PreparedStatement read = session.prepare("SELECT version FROM demo.rows WHERE id = ?");
        read.setConsistencyLevel(ConsistencyLevel.QUORUM);
        Set<Integer> lost = ConcurrentHashMap.newKeySet();
        acknowledged.keySet().parallelStream()
                .forEach(
                        id -> {
                            Row row = read(session, read.bind(id));
                            if (row == null || row.getInt("version") != acknowledged.get(id)) {
                                lost.add(id);
                            }
                        });
        if (!lost.isEmpty()) {
            throw new IllegalStateException(lost.size() + " acknowledged rows are lost: " + lost);
        }
        say("read %d rows at QUORUM, all are as acknowledged", acknowledged.size());
    }

    /** Reads again if the nodes do not know each other yet. */
    private static Row read(Session session, Statement read) {
        for (int attempt = 1; ; attempt++) {
            try {
                return session.execute(read).one();
            } catch (DriverException error) {
                if (attempt == READ_ATTEMPTS) {
                    throw error;
                }
                Node.pause(READ_PAUSE_MILLIS);
            }
        }
    }

    private void repair(Node node) {
        node.repair("demo");
        say("repaired");
    }
}
