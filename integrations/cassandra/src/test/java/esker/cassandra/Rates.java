package esker.cassandra;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.ToDoubleFunction;

/**
 * Prints requests a second and latencies of one node, with memtables of Esker and of Cassandra. All
 * kinds take turns. Client and node share the machine.
 */
final class Rates {
    /** All kinds get so much memory for memtables, and a pool four times as much. */
    private static final String MEMTABLE_SPACE = "512MiB";

    private static final String POOL_SIZE = "2GiB";

    private static final List<String> LOGS =
            List.of("batch", "group", "periodic");

    /**
     * What is compared. {@code log} is that of {@code commitlog_sync}, which tables of Esker do not
     * use.
     */
    private record Kind(String name, String memtable, String log) {}

    private static final List<Kind> KINDS = kinds();

    private static List<Kind> kinds() {
        List<Kind> kinds = new ArrayList<>();
        kinds.add(new Kind("esker-pool", "esker", "periodic"));
        kinds.add(new Kind("esker-file", "esker", "periodic"));
        for (String memtable : List.of("trie", "skiplist")) {
            LOGS.forEach(log -> kinds.add(new Kind(memtable + "-" + log, memtable, log)));
        }
        return kinds;
    }

    private record Result(double rate, double p50, double p99, double cpuMicros) {}

    private int rounds = 2;
    private int seconds = 10;
    private int warmUp = 25;
    private int bytes = 200;
    private int inFlight = 256;
    private int writes = 256;
    private int reads;
    private boolean isJson;
    private List<String> only = List.of("esker-pool", "esker-file", "trie-batch", "trie-periodic");

    private Rates(String[] arguments) {
        for (int i = 0; i < arguments.length; i++) {
            switch (arguments[i]) {
                case "--rounds" -> rounds = Integer.parseInt(arguments[++i]);
                case "--seconds" -> seconds = Integer.parseInt(arguments[++i]);
                case "--warm-up" -> warmUp = Integer.parseInt(arguments[++i]);
                case "--bytes" -> bytes = Integer.parseInt(arguments[++i]);
                case "--in-flight" -> inFlight = Integer.parseInt(arguments[++i]);
                case "--writes" -> writes = Integer.parseInt(arguments[++i]);
                case "--reads" -> reads = Integer.parseInt(arguments[++i]);
                case "--kinds" -> only = List.of(arguments[++i].split(","));
                case "--json" -> isJson = true;
                default -> throw new IllegalArgumentException("unknown: " + arguments[i]);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        new Rates(arguments).run();
        // Threads of the driver may go on for a while.
        System.exit(0);
    }

    private void run() throws Exception {
        List<Kind> kinds = new ArrayList<>(KINDS);
        if (!only.equals(List.of("all"))) {
            kinds.removeIf(kind -> !only.contains(kind.name));
        }
        Map<Kind, List<Result>> results = new LinkedHashMap<>();
        for (int round = 0; round < rounds; round++) {
            for (Kind kind : kinds) {
                Result result = run(kind);
                results.computeIfAbsent(kind, key -> new ArrayList<>()).add(result);
                System.out.println(line(kind, result));
            }
        }
        if (!isJson) {
            System.out.printf(
                    "%nmedians of %d runs of %d s, rows of %d bytes, %d%% reads, %d in flight,"
                            + " concurrent_writes %d%nesker-pool is emulated persistent memory"
                            + " (DRAM)%n",
                    rounds, seconds, bytes, reads, inFlight, writes);
            results.forEach((kind, all) -> System.out.println(line(kind, median(all))));
        }
    }

    private String line(Kind kind, Result result) {
        String form =
                isJson
                        ? "{\"kind\": \"%s\", \"rate\": %.0f, \"p50_ms\": %.2f, \"p99_ms\": %.2f,"
                                + " \"cpu_us\": %.1f}"
                        : "%-18s %8.0f requests/s   p50 %7.2f ms   p99 %7.2f ms   %5.0f us of"
                                + " processor a request";
        return String.format(
                Locale.ROOT,
                form,
                kind.name,
                result.rate,
                result.p50,
                result.p99,
                result.cpuMicros);
    }

    private static Result median(List<Result> all) {
        return new Result(
                middle(all, Result::rate),
                middle(all, Result::p50),
                middle(all, Result::p99),
                middle(all, Result::cpuMicros));
    }

    private static double middle(List<Result> all, ToDoubleFunction<Result> of) {
        double[] values = all.stream().mapToDouble(of).toArray();
        Arrays.sort(values);
        return (values[(values.length - 1) / 2] + values[values.length / 2]) / 2;
    }

    private Result run(Kind kind) throws Exception {
        Path dir = Path.of("target/nodes/rates");
        Node.delete(dir);
        try (Node node = node(dir, kind).start();
                Node.Client client = new Node.Client(node)) {
            client.run(
                    "CREATE KEYSPACE k WITH replication ="
                            + " {'class': 'SimpleStrategy', 'replication_factor': 1}",
                    "CREATE TABLE k.t (p bigint PRIMARY KEY, v blob) WITH memtable = '"
                            + kind.memtable
                            + "' AND compression = {'enabled': false}");
            try (Load load = new Load(node, inFlight, bytes, reads)) {
                load.run(warmUp, 0);
                double cpuBefore = node.cpuMicros();
                Load.Result result = load.run(seconds, 0);
                return new Result(
                        result.rate(),
                        result.millis(0.5),
                        result.millis(0.99),
                        (node.cpuMicros() - cpuBefore) / result.requests());
            }
        } finally {
            Node.delete(dir);
        }
    }

    private Node node(Path dir, Kind kind) {
        Node node = new Node(dir, 1).heap(1024).withoutProperty("-ea");
        node.with("concurrent_writes", String.valueOf(writes));
        node.with("memtable_offheap_space", MEMTABLE_SPACE);
        if (kind.name.equals("esker-pool")) {
            node.onPool(POOL_SIZE);
        }
        node.memtable("skiplist", "SkipListMemtable", Map.of());
        if (!kind.log.equals("periodic")) {
            node.with("commitlog_sync", kind.log).with("commitlog_sync_period", null);
        }
        if (kind.log.equals("group")) {
            node.with("commitlog_sync_group_window", "10ms");
        }
        return node;
    }
}
