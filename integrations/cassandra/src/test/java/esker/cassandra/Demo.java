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
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A cluster on loopback addresses: load at QUORUM, kill a node under load, read all acknowledged
 * rows at QUORUM, start it again, repair it, kill all nodes at once, and read again. Or only kills
 * under load and reads, many times. Fails if a row is lost.
 */
final class Demo {
    private static final int WRITERS = 8;
    private static final int ROW_BYTES = 200;
    private static final int READ_ATTEMPTS = 100;
    private static final long READ_PAUSE_MILLIS = 500;

    private final String memtable;
    private final List<Node> nodes = new ArrayList<>();
    private final Map<Integer, Integer> acknowledged = new ConcurrentHashMap<>();
    private final AtomicInteger next = new AtomicInteger();
    private final AtomicLong unacknowledged = new AtomicLong();
    private final long begun = System.nanoTime();
    private volatile boolean isStopped;
    private volatile boolean isFailed;

    private Demo(String memtable) {
        this.memtable = memtable;
    }

    /** Arguments: directory, number of nodes, seconds of load, number of kills or 0, memtable. */
    public static void main(String[] arguments) throws Exception {
        Path dir = Path.of(arguments[0]);
        int nodes = Integer.parseInt(arguments[1]);
        int seconds = Integer.parseInt(arguments[2]);
        int kills = Integer.parseInt(arguments[3]);
        Demo demo = new Demo(arguments[4]);
        // Ctrl-C runs it, too. Only a failure leaves the files, with the logs of the nodes.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> demo.stop(dir)));
        Node.delete(dir);
        int status = 0;
        try {
            demo.start(dir, nodes);
            if (kills > 0) {
                demo.kill(kills, seconds);
            } else {
                demo.show(seconds);
            }
            demo.say("no acknowledged row is lost");
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

    private int copies() {
        return Math.min(3, nodes.size());
    }

    private void start(Path dir, int count) {
        for (int i = 1; i <= count; i++) {
            Node node = new Node(dir.resolve("node" + i), i, 1);
            nodes.add(node);
            node.start();
            say("node %d at %s serves clients", i, node.address());
        }
        try (Cluster cluster = Node.client(nodes);
                Session session = cluster.connect()) {
            session.execute(
                    "CREATE KEYSPACE demo WITH replication ="
                            + " {'class': 'SimpleStrategy', 'replication_factor': "
                            + copies()
                            + "}");
            session.execute(
                    "CREATE TABLE demo.rows (id int PRIMARY KEY, version int, filler text)"
                            + " WITH memtable = '"
                            + memtable
                            + "'");
        }
        say("created a table on Esker, %d copies of each row", copies());
    }

    /** Kills each node in turn, then all at once, under load. Checks all rows after each kill. */
    private void kill(int kills, int seconds) throws InterruptedException {
        Random random = new Random(kills);
        for (int i = 1; i <= kills; i++) {
            int turn = i % (nodes.size() + 1);
            List<Node> killed = turn == 0 ? nodes : List.of(nodes.get(turn - 1));
            long pause = random.nextInt(seconds * 1000);
            Thread killer =
                    new Thread(
                            () -> {
                                Node.pause(pause);
                                killed.forEach(Node::kill);
                            });
            try (Cluster cluster = Node.client(nodes);
                    Session session = cluster.connect()) {
                killer.start();
                load(session, seconds);
                killer.join();
            }
            say(
                    "kill %d of %d, %s: %d writes acknowledged, %d not",
                    i,
                    kills,
                    turn == 0 ? "all nodes" : "node " + turn,
                    acknowledged.size(),
                    unacknowledged.get());
            killed.forEach(Node::startLater);
            killed.forEach(Node::await);
            try (Cluster cluster = Node.client(nodes);
                    Session session = cluster.connect()) {
                check(session);
            }
        }
    }

    private void show(int seconds) throws InterruptedException {
        int count = nodes.size();
        int copies = copies();
        Node last = nodes.get(count - 1);
        try (Cluster cluster = Node.client(nodes);
                Session session = cluster.connect()) {
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
                                        Node.pause(20);
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
        node.beans().repair("demo", false);
        say("repaired");
    }
}
