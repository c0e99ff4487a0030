package esker.kafka;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * A word count on Esker's stores with a real broker, both on loopback and in processes of their own. The
 * application is killed while it works, and started again. Its results must be those of all lines.
 *
 * <p>With exactly-once processing Kafka gives up the stores of a killed application and restores all.
 * With at-least-once it goes on with what the stores recover. A count may be too high then, so the last
 * line with each word is compared, too.
 */
final class BrokerDemo {
    private static final int KILLS = 3;
    private static final int LINES_BETWEEN = 20_000;
    private static final int WORDS = 5_000;
    private static final int WORDS_OF_LINE = 10;
    private static final int PARTITIONS = 2;
    private static final long PATIENCE_SECONDS = 180;
    private static final String COUNTS = "counts";
    private static final String LAST = "last";

    private BrokerDemo() {}

    /** Arguments: none, or those of the application, which it starts itself. */
    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            application(arguments[0], arguments[1], Path.of(arguments[2]));
            return;
        }
        Path dir = Files.createTempDirectory(Path.of("target"), "broker").toAbsolutePath();
        String address = "127.0.0.1:" + freePort();
        Process broker = startBroker(dir, address);
        try {
            for (String guarantee :
                    List.of(StreamsConfig.EXACTLY_ONCE_V2, StreamsConfig.AT_LEAST_ONCE)) {
                new Check(dir, address, guarantee).run(broker);
            }
        } finally {
            stop(broker);
        }
        try (var paths = Files.walk(dir)) {
            for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(path);
            }
        }
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    private static Process java(Path log, String memory, String main, String... arguments)
            throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of("-Xmx" + memory, "-cp", System.getProperty("java.class.path")));
        command.add(main);
        command.addAll(Arrays.asList(arguments));
        Process process =
                new ProcessBuilder(command)
                        .redirectErrorStream(true)
                        .redirectOutput(ProcessBuilder.Redirect.appendTo(log.toFile()))
                        .start();
        // If this process is interrupted, none is left.
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
        return process;
    }

    private static void stop(Process process) throws InterruptedException {
        process.destroy();
        if (!process.waitFor(30, TimeUnit.SECONDS)) {
            process.destroyForcibly().waitFor();
        }
    }

    private static Process startBroker(Path dir, String address) throws Exception {
        String controller = "127.0.0.1:" + freePort();
        Path config = dir.resolve("broker.properties");
        Files.writeString(
                config,
                """
                process.roles=broker,controller
                node.id=1
                controller.quorum.voters=1@%s
                controller.listener.names=CONTROLLER
                listeners=PLAINTEXT://%s,CONTROLLER://%s
                log.dirs=%s
                offsets.topic.replication.factor=1
                offsets.topic.num.partitions=2
                transaction.state.log.replication.factor=1
                transaction.state.log.min.isr=1
                transaction.state.log.num.partitions=2
                transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
                group.initial.rebalance.delay.ms=0
                log.cleaner.dedupe.buffer.size=4194304
                """
                        .formatted(controller, address, controller, dir.resolve("broker")));
        Path log = dir.resolve("broker.log");
        String cluster = Uuid.randomUuid().toString();
        Process format =
                java(
                        log,
                        "64m",
                        "kafka.tools.StorageTool",
                        "format",
                        "-t",
                        cluster,
                        "-c",
                        config.toString());
        if (format.waitFor() != 0) {
            throw new IllegalStateException("the broker's storage is not formatted: see " + log);
        }
        return java(log, "256m", "kafka.Kafka", config.toString());
    }

    // The application.

    private static Topology topology(String guarantee) {
        StreamsBuilder builder = new StreamsBuilder();
        var byWord =
                builder.stream("lines-" + guarantee, Consumed.with(Serdes.Long(), Serdes.String()))
                        .flatMap(
                                (number, line) ->
                                        Arrays.stream(line.split(" "))
                                                .map(word -> KeyValue.pair(word, number))
                                                .toList())
                        .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()));
        var produced = Produced.with(Serdes.String(), Serdes.Long());
        byWord.count(Materialized.as(COUNTS)).toStream().to(COUNTS + "-" + guarantee, produced);
        byWord.reduce(Math::max, Materialized.as(LAST))
                .toStream()
                .to(LAST + "-" + guarantee, produced);
        return builder.build();
    }

    private static void application(String address, String guarantee, Path state) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "words-" + guarantee);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, address);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        // A cache would hide writes, and all of them are to reach the stores.
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        properties.put(
                StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, EskerDslStoreSuppliers.class);
        properties.put(EskerDslStoreSuppliers.MEMORY_BYTES, "64MiB");
        properties.put(EskerDslStoreSuppliers.SEGMENT_BYTES, "1MiB");
        // The group notices soon that a member was killed.
        properties.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6_000);
        properties.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 1_000);
        properties.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        properties.put(StreamsConfig.consumerPrefix("max.poll.records"), 200);
        KafkaStreams streams = new KafkaStreams(topology(guarantee), properties);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }

    /** A run with one guarantee. */
    private static final class Check {
        private final Path dir;
        private final String address;
        private final String guarantee;
        private final Random random = new Random(1);
        private final Map<String, Long> counts = new HashMap<>();
        private final Map<String, Long> last = new HashMap<>();
        private final Map<String, Map<String, Long>> results = new HashMap<>();
        private long lines;
        private long received;

        Check(Path dir, String address, String guarantee) {
            this.dir = dir;
            this.address = address;
            this.guarantee = guarantee;
        }

        private String topic(String name) {
            return name + "-" + guarantee;
        }

        void run(Process broker) throws Exception {
            createTopics(broker);
            results.put(topic(COUNTS), new HashMap<>());
            results.put(topic(LAST), new HashMap<>());
            try (var producer =
                            new KafkaProducer<>(
                                    Map.of("bootstrap.servers", address),
                                    new LongSerializer(),
                                    new StringSerializer());
                    var consumer = consumer()) {
                consumer.subscribe(results.keySet());
                for (int kill = 0; kill < KILLS; kill++) {
                    Process application = start();
                    produce(producer);
                    long before = received;
                    await(consumer, application, () -> received > before);
                    boolean isBehind = !isComplete();
                    application.destroyForcibly().waitFor();
                    System.out.printf(
                            "%s: killed with %d of %d counts right%s%n",
                            guarantee,
                            right(topic(COUNTS), counts),
                            counts.size(),
                            isBehind ? "" : ", and nothing to do");
                }
                Process application = start();
                produce(producer);
                await(consumer, application, this::isComplete);
                if (!Files.exists(state())) {
                    throw new AssertionError("there is no state in " + state());
                }
                stop(application);
                System.out.printf(
                        "%s: %d lines, %d kills: all %d words have the right last line; %d counts"
                                + " are right%n",
                        guarantee,
                        lines,
                        KILLS,
                        last.size(),
                        right(topic(COUNTS), counts));
            }
        }

        private Path state() {
            return dir.resolve("state-" + guarantee);
        }

        private Process start() throws IOException {
            return java(
                    dir.resolve("application.log"),
                    "160m",
                    BrokerDemo.class.getName(),
                    address,
                    guarantee,
                    state().toString());
        }

        private void createTopics(Process broker) throws Exception {
            Collection<NewTopic> topics =
                    List.of(
                            new NewTopic(topic("lines"), PARTITIONS, (short) 1),
                            new NewTopic(topic(COUNTS), PARTITIONS, (short) 1),
                            new NewTopic(topic(LAST), PARTITIONS, (short) 1));
            if (!broker.isAlive()) {
                throw new IllegalStateException("the broker did not start: see its log in " + dir);
            }
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
                admin.createTopics(topics).all().get();
            }
        }

        private KafkaConsumer<String, Long> consumer() {
            return new KafkaConsumer<>(
                    Map.of(
                            "bootstrap.servers", address,
                            "group.id", topic("results"),
                            "auto.offset.reset", "earliest",
                            "isolation.level", "read_committed"),
                    new StringDeserializer(),
                    new LongDeserializer());
        }

        private void produce(KafkaProducer<Long, String> producer) {
            for (int count = 0; count < LINES_BETWEEN; count++, lines++) {
                StringBuilder line = new StringBuilder();
                for (int word = 0; word < WORDS_OF_LINE; word++) {
                    String text = "word" + random.nextInt(WORDS);
                    line.append(text).append(' ');
                    counts.merge(text, 1L, Long::sum);
                    last.put(text, lines);
                }
                producer.send(new ProducerRecord<>(topic("lines"), lines, line.toString()));
            }
            producer.flush();
        }

        private void await(
                KafkaConsumer<String, Long> consumer,
                Process application,
                BooleanSupplier isReached) {
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
            while (!isReached.getAsBoolean()) {
                for (ConsumerRecord<String, Long> record :
                        consumer.poll(Duration.ofMillis(200))) {
                    results.get(record.topic()).put(record.key(), record.value());
                    received++;
                }
                if (!application.isAlive() || System.nanoTime() > deadline) {
                    throw new AssertionError(
                            "%s: %d of %d counts and %d of %d last lines are right after %d lines;"
                                    .formatted(
                                            guarantee,
                                            right(topic(COUNTS), counts),
                                            counts.size(),
                                            right(topic(LAST), last),
                                            last.size(),
                                            lines)
                                    + " see the logs in "
                                    + dir
                                    + wrong());
                }
            }
        }

        private String wrong() {
            StringBuilder text = new StringBuilder();
            for (var entry : counts.entrySet()) {
                Long found = results.get(topic(COUNTS)).get(entry.getKey());
                if (!entry.getValue().equals(found)) {
                    text.append(' ').append(entry.getKey()).append(' ');
                    text.append(found).append('/').append(entry.getValue());
                }
            }
            return text.toString();
        }

        private long right(String topic, Map<String, Long> expected) {
            Map<String, Long> found = results.get(topic);
            return expected.entrySet().stream()
                    .filter(entry -> entry.getValue().equals(found.get(entry.getKey())))
                    .count();
        }

        /** Counts of at-least-once processing may be higher, but never lower. */
        private boolean isComplete() {
            Map<String, Long> found = results.get(topic(COUNTS));
            boolean isExact = guarantee.equals(StreamsConfig.EXACTLY_ONCE_V2);
            return right(topic(LAST), last) == last.size()
                    && counts.entrySet().stream()
                            .allMatch(
                                    entry -> {
                                        long count = found.getOrDefault(entry.getKey(), 0L);
                                        return isExact
                                                ? count == entry.getValue()
                                                : count >= entry.getValue();
                                    });
        }
    }
}
