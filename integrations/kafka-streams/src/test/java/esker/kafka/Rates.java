package esker.kafka;

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.DriverTask;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;

/**
 * Prints records a second of topologies, and resident memory: Esker, and Kafka's stores in RocksDB with
 * their defaults. The two take turns, each run in a new process. A commit is made by the clock, as
 * Kafka Streams does it. There is no broker: the changelog goes to a mock.
 */
final class Rates {
    private static final int KEYS = 1_000_000;
    private static final int WORDS = 10;
    private static final int STORES = 20;
    private static final int AT_ONCE = 1_000;
    private static final byte[] LINE = bytes("line");
    private static final byte[] VALUE = bytes("a value of about thirty bytes.");
    private static final long JOINED_MINUTES = 5;
    // Two sides, so many minutes back, and 1,000,000 keys: half of the records find a match.
    private static final long RECORDS_PER_MILLI = 3;

    private static final Map<String, Class<?>> SUPPLIERS =
            Map.of(
                    "esker", EskerDslStoreSuppliers.class,
                    "rocksdb", BuiltInDslStoreSuppliers.RocksDBDslStoreSuppliers.class);

    private Rates() {}

    /** Arguments: topology, rounds, records, bytes of Kafka's cache, milliseconds between commits. */
    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("run")) {
            run(arguments);
            return;
        }
        String topology = arguments[0];
        int rounds = Integer.parseInt(argument(arguments, 1, "3"));
        String records = argument(arguments, 2, topology.equals("stores") ? "4000000" : "2000000");
        String cache = argument(arguments, 3, "10485760");
        String commit = argument(arguments, 4, "30000");
        Map<String, List<double[]>> results = new LinkedHashMap<>();
        for (int round = 0; round < rounds; round++) {
            for (String kind : List.of("esker", "rocksdb")) {
                double[] result = start(kind, topology, records, cache, commit);
                results.computeIfAbsent(kind, key -> new ArrayList<>()).add(result);
                System.out.println(line(kind, result));
            }
        }
        System.out.printf(
                "%n%s: medians of %d runs of %s records, cache %s B, commits each %s ms%n",
                topology, rounds, records, cache, commit);
        results.forEach((kind, all) -> System.out.println(line(kind, median(all))));
    }

    private static String argument(String[] arguments, int index, String otherwise) {
        return arguments.length > index ? arguments[index] : otherwise;
    }

    private static String line(String kind, double[] result) {
        return String.format(
                Locale.ROOT,
                "%-8s %9.0f records/s   %6.2f us of processor a record   %6.0f MiB resident",
                kind,
                result[0],
                result[1],
                result[2]);
    }

    private static double[] median(List<double[]> all) {
        double[] medians = new double[all.get(0).length];
        for (int at = 0; at < medians.length; at++) {
            int column = at;
            double[] sorted = all.stream().mapToDouble(one -> one[column]).sorted().toArray();
            medians[at] = (sorted[(sorted.length - 1) / 2] + sorted[sorted.length / 2]) / 2;
        }
        return medians;
    }

    private static double[] start(String... arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
        // The heap is touched before, so that its share of the resident memory is always the same.
        command.addAll(List.of("-Xms512m", "-Xmx512m", "-XX:+AlwaysPreTouch"));
        command.addAll(List.of("-cp", System.getProperty("java.class.path")));
        command.addAll(List.of(Rates.class.getName(), "run"));
        command.addAll(Arrays.asList(arguments));
        Process process =
                new ProcessBuilder(command)
                        .redirectError(ProcessBuilder.Redirect.INHERIT)
                        .start();
        String last = "";
        try (BufferedReader out = process.inputReader()) {
            for (String line = out.readLine(); line != null; line = out.readLine()) {
                last = line;
            }
        }
        if (process.waitFor() != 0) {
            throw new IllegalStateException("a run failed");
        }
        return Arrays.stream(last.split(" ")).mapToDouble(Double::parseDouble).toArray();
    }

    // A run, in a process of its own.

    private static void run(String[] arguments) throws Exception {
        String kind = arguments[1];
        int records = Integer.parseInt(arguments[3]);
        Path dir = Files.createTempDirectory(Path.of("target"), "rates");
        try {
            Properties properties = properties(dir, kind, arguments[4]);
            Input input = input(arguments[2]);
            try (DriverTask task = new DriverTask(input.topology(), properties)) {
                Work work = new Work(task, Long.parseLong(arguments[5]));
                // Twice: the measured half finds full stores and compiled code.
                pipe(work, input, 0, records);
                work.begin();
                pipe(work, input, records, records);
                work.commit();
                System.out.printf(
                        Locale.ROOT,
                        "%.0f %.3f %.1f%n",
                        records / work.seconds(),
                        (cpuMicros() - work.cpuMicrosBefore) / records,
                        residentMib());
            }
        } finally {
            delete(dir);
        }
    }

    /** Measures a task without the making of its input, and commits after so many milliseconds. */
    private static final class Work {
        private final DriverTask task;
        private final long commitNanos;
        private long sinceCommit;
        private long nanos;
        private double cpuMicrosBefore;

        Work(DriverTask task, long commitMillis) {
            this.task = task;
            commitNanos = TimeUnit.MILLISECONDS.toNanos(commitMillis);
        }

        void begin() {
            nanos = 0;
            cpuMicrosBefore = cpuMicros();
        }

        void process() {
            measure(task::process);
            if (sinceCommit >= commitNanos) {
                commit();
            }
        }

        void commit() {
            measure(task::commit);
            sinceCommit = 0;
        }

        private void measure(Runnable step) {
            long start = System.nanoTime();
            step.run();
            long taken = System.nanoTime() - start;
            nanos += taken;
            sinceCommit += taken;
        }

        double seconds() {
            return nanos / 1e9;
        }
    }

    private static void pipe(Work work, Input input, int first, int records) {
        int each = input.recordsEach();
        for (int record = first; record < first + records; ) {
            for (int count = 0; count < AT_ONCE; count += each, record += each) {
                input.add(work.task, record);
            }
            work.process();
        }
    }

    private interface Input {
        Topology topology();

        /** How many records one call of {@code add} counts as. */
        int recordsEach();

        void add(DriverTask task, int record);
    }

    private static Input input(String name) {
        return switch (name) {
            case "count" -> new Count();
            case "join" -> new Join();
            case "stores" -> new Stores();
            default -> throw new IllegalArgumentException("count, join or stores, not " + name);
        };
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** All keys, made beforehand. */
    private static byte[][] words() {
        byte[][] words = new byte[KEYS][];
        for (int number = 0; number < KEYS; number++) {
            words[number] = bytes("word" + (KEYS + number));
        }
        return words;
    }

    /** A word count. A record is a word; lines have ten, so that all are repartitioned. */
    private static final class Count implements Input {
        private final Random random = new Random(1);
        private final byte[][] words = words();

        @Override
        public Topology topology() {
            StreamsBuilder builder = new StreamsBuilder();
            builder.<String, String>stream("lines")
                    .flatMapValues(line -> List.of(line.split(" ")))
                    .groupBy((key, word) -> word)
                    .count(Materialized.as("counts"));
            return builder.build();
        }

        @Override
        public int recordsEach() {
            return WORDS;
        }

        @Override
        public void add(DriverTask task, int record) {
            ByteBuffer line = ByteBuffer.allocate(WORDS * (words[0].length + 1));
            for (int count = 0; count < WORDS; count++) {
                line.put(words[random.nextInt(KEYS)]).put((byte) ' ');
            }
            task.add("lines", record / 100, LINE, line.array());
        }
    }

    /** An inner join of two streams, each with all keys. */
    private static final class Join implements Input {
        private final Random random = new Random(1);
        private final byte[][] words = words();

        @Override
        public Topology topology() {
            StreamsBuilder builder = new StreamsBuilder();
            KStream<String, String> right = builder.stream("right");
            builder.<String, String>stream("left")
                    .join(
                            right,
                            (one, other) -> one + other,
                            JoinWindows.ofTimeDifferenceWithNoGrace(
                                    Duration.ofMinutes(JOINED_MINUTES)))
                    .to("joined");
            return builder.build();
        }

        @Override
        public int recordsEach() {
            return 1;
        }

        @Override
        public void add(DriverTask task, int record) {
            byte[] key = words[random.nextInt(KEYS)];
            task.add(
                    record % 2 == 0 ? "left" : "right",
                    record / RECORDS_PER_MILLI,
                    key,
                    VALUE);
        }
    }

    /** Twenty stores in one task, all of which get each record. A record is one of one store. */
    private static final class Stores implements Input {
        private final Random random = new Random(1);
        private final byte[][] words = words();

        @Override
        public Topology topology() {
            StreamsBuilder builder = new StreamsBuilder();
            KStream<String, String> words = builder.stream("words");
            for (int store = 0; store < STORES; store++) {
                words.groupByKey().count(Materialized.as("counts" + store));
            }
            return builder.build();
        }

        @Override
        public int recordsEach() {
            return STORES;
        }

        @Override
        public void add(DriverTask task, int record) {
            task.add("words", record / 100, words[random.nextInt(KEYS)], VALUE);
        }
    }

    private static Properties properties(Path dir, String kind, String cacheBytes) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "rates");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, dir.toString());
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, cacheBytes);
        properties.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, SUPPLIERS.get(kind));
        return properties;
    }

    private static double cpuMicros() {
        var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime() / 1e3;
    }

    private static double residentMib() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmRSS:")) {
                return Long.parseLong(line.replaceAll("\\D", "")) / 1024.0;
            }
        }
        throw new IOException("no VmRSS in /proc/self/status");
    }

    private static void delete(Path dir) throws IOException {
        try (var paths = Files.walk(dir)) {
            for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(path);
            }
        }
    }
}
