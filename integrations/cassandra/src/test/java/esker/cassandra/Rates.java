package esker.cassandra;

import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.ResultSetFuture;
import com.datastax.driver.core.Session;
import com.datastax.driver.core.SimpleStatement;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Prints rows a second and latencies of inserts into one node: Esker, and Cassandra's trie memtable
 * with a commit log that is synced for each batch of writes, or periodically. Client and node share
 * the machine.
 */
final class Rates {
    private static final int IN_FLIGHT = 256;
    private static final int MOST_SAMPLES = 4_000_000;

    private Rates() {}

    private record Kind(String name, String memtable, boolean isPeriodic) {}

    private record Result(double rows, double medianMillis, double p99Millis, double cpuMicros) {}

    private static final List<Kind> KINDS =
            List.of(
                    new Kind("Esker", "esker", true),
                    new Kind("trie, batch commit log", "trie", false),
                    new Kind("trie, periodic commit log", "trie", true));

    /** Arguments: rounds, seconds of a run, bytes of a row, a part of the names that run. */
    public static void main(String[] arguments) throws Exception {
        int rounds = argument(arguments, 0, 2);
        int seconds = argument(arguments, 1, 10);
        int bytes = argument(arguments, 2, 200);
        String only = arguments.length > 3 ? arguments[3] : "";
        Map<Kind, List<Result>> results = new LinkedHashMap<>();
        for (int round = 0; round < rounds; round++) {
            for (Kind kind : KINDS) {
                if (!kind.name.contains(only)) {
                    continue;
                }
                Result result = run(kind, seconds, bytes);
                results.computeIfAbsent(kind, key -> new ArrayList<>()).add(result);
                System.out.println(line(kind, result));
            }
        }
        System.out.printf(
                Locale.ROOT,
                "%nmedians of %d runs of %d s, rows of %d bytes, %d in flight%n",
                rounds,
                seconds,
                bytes,
                IN_FLIGHT);
        results.forEach((kind, all) -> System.out.println(line(kind, median(all))));
        // Threads of the driver may go on for a while.
        System.exit(0);
    }

    private static int argument(String[] arguments, int index, int otherwise) {
        return arguments.length > index ? Integer.parseInt(arguments[index]) : otherwise;
    }

    private static String line(Kind kind, Result result) {
        return String.format(
                Locale.ROOT,
                "%-26s %8.0f rows/s   p50 %6.1f ms   p99 %6.1f ms   %5.0f us of processor a row",
                kind.name,
                result.rows,
                result.medianMillis,
                result.p99Millis,
                result.cpuMicros);
    }

    private static Result median(List<Result> all) {
        return new Result(
                middle(all.stream().mapToDouble(Result::rows).toArray()),
                middle(all.stream().mapToDouble(Result::medianMillis).toArray()),
                middle(all.stream().mapToDouble(Result::p99Millis).toArray()),
                middle(all.stream().mapToDouble(Result::cpuMicros).toArray()));
    }

    private static double middle(double[] values) {
        Arrays.sort(values);
        return (values[(values.length - 1) / 2] + values[values.length / 2]) / 2;
    }

    private static Result run(Kind kind, int seconds, int bytes) throws Exception {
        Path dir = Path.of("target/nodes/rates");
        Node.delete(dir);
        try (Node node = new Node(dir, 1).heap(512).withoutProperty("-ea")) {
            // A write then stays on the thread of its request, for all kinds.
            node.with("concurrent_writes", "256");
            if (!kind.isPeriodic) {
                node.with("commitlog_sync", "batch").with("commitlog_sync_period", null);
            }
            node.start();
            try (Cluster cluster = node.connect();
                    Session session = cluster.connect()) {
                session.execute(
                        "CREATE KEYSPACE k WITH replication ="
                                + " {'class': 'SimpleStrategy', 'replication_factor': 1}");
                session.execute(
                        "CREATE TABLE k.t (p bigint PRIMARY KEY, v blob) WITH memtable = '"
                                + kind.memtable
                                + "' AND compression = {'enabled': false}");
                PreparedStatement insert =
                        session.prepare(
                                new SimpleStatement("INSERT INTO k.t (p, v) VALUES (?, ?)"));
                load(node, session, insert, seconds, bytes, 1);
                return load(node, session, insert, seconds, bytes, 2);
            }
        } finally {
            Node.delete(dir);
        }
    }

    private static Result load(
            Node node, Session session, PreparedStatement insert, int seconds, int bytes, long seed)
            throws InterruptedException {
        Random random = new Random(seed);
        byte[] value = new byte[bytes];
        int[] micros = new int[MOST_SAMPLES];
        AtomicInteger samples = new AtomicInteger();
        AtomicLong failed = new AtomicLong();
        Semaphore free = new Semaphore(IN_FLIGHT);
        double cpuBefore = node.cpuMicros();
        long start = System.nanoTime();
        long end = start + TimeUnit.SECONDS.toNanos(seconds);
        long rows = 0;
        while (System.nanoTime() < end) {
            free.acquire();
            random.nextBytes(value);
            long begun = System.nanoTime();
            ResultSetFuture future =
                    session.executeAsync(
                            insert.bind(random.nextLong(), ByteBuffer.wrap(value.clone())));
            future.addListener(
                    () -> {
                        int sample = samples.getAndIncrement();
                        if (sample < MOST_SAMPLES) {
                            micros[sample] = (int) ((System.nanoTime() - begun) / 1000);
                        }
                        try {
                            future.getUninterruptibly();
                        } catch (RuntimeException error) {
                            failed.incrementAndGet();
                        }
                        free.release();
                    },
                    Runnable::run);
            rows++;
        }
        free.acquire(IN_FLIGHT);
        if (failed.get() > 0) {
            throw new IllegalStateException(failed + " writes failed");
        }
        double taken = (System.nanoTime() - start) / 1e9;
        int[] sorted = Arrays.copyOf(micros, Math.min(samples.get(), MOST_SAMPLES));
        Arrays.sort(sorted);
        return new Result(
                rows / taken,
                sorted[sorted.length / 2] / 1e3,
                sorted[(int) (sorted.length * 0.99)] / 1e3,
                (node.cpuMicros() - cpuBefore) / rows);
    }
}
