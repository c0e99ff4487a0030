package esker.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A word count, joins and sessions, with all state in Esker. */
class DemoTest {
    @TempDir Path dir;

    private static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream("lines");
        lines.flatMapValues(line -> List.of(line.split(" ")))
                .groupBy((key, word) -> word)
                .count(Materialized.as("words"));
        lines.join(
                        builder.<String, String>stream("answers"),
                        (line, answer) -> line + " / " + answer,
                        JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofSeconds(10)))
                .to("joined");
        lines.groupByKey()
                .windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofSeconds(5)))
                .count(Materialized.as("sessions"));
        return builder.build();
    }

    private Properties properties() {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "demo");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, dir.toString());
        properties.put(
                StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(
                StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(
                StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, EskerDslStoreSuppliers.class);
        properties.put(EskerDslStoreSuppliers.MEMORY_BYTES, 64 << 20);
        return properties;
    }

    private static TestInputTopic<String, String> input(TopologyTestDriver driver, String topic) {
        return driver.createInputTopic(topic, new StringSerializer(), new StringSerializer());
    }

    @Test
    void aTableMayBeVersioned() {
        StreamsBuilder builder = new StreamsBuilder();
        var prices =
                EskerStores.versionedKeyValueStore("prices", Duration.ofMinutes(10));
        builder.<String, String>stream("orders")
                .join(
                        builder.<String, String>table("prices", Materialized.as(prices)),
                        (order, price) -> order + " at " + price)
                .to("priced");
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), properties())) {
            TestInputTopic<String, String> table = input(driver, "prices");
            table.pipeInput("tea", "3", Instant.ofEpochSecond(100));
            table.pipeInput("tea", "4", Instant.ofEpochSecond(200));
            TestInputTopic<String, String> orders = input(driver, "orders");
            orders.pipeInput("tea", "two", Instant.ofEpochSecond(210));
            orders.pipeInput("tea", "late one", Instant.ofEpochSecond(150));
            assertEquals(
                    List.of(
                            KeyValue.pair("tea", "two at 4"),
                            KeyValue.pair("tea", "late one at 3")),
                    driver.createOutputTopic(
                                    "priced", new StringDeserializer(), new StringDeserializer())
                            .readKeyValuesToList());
            assertTrue(Files.exists(dir.resolve("demo/0_0/esker/prices")));
        }
    }

    @Test
    void allStoresAreInEsker() throws Exception {
        try (TopologyTestDriver driver = new TopologyTestDriver(topology(), properties())) {
            TestInputTopic<String, String> lines = input(driver, "lines");
            lines.pipeInput("ada", "to be or not to be", Instant.ofEpochSecond(100));
            lines.pipeInput("ada", "to see", Instant.ofEpochSecond(103));
            lines.pipeInput("ada", "again", Instant.ofEpochSecond(120));
            input(driver, "answers").pipeInput("ada", "yes", Instant.ofEpochSecond(112));

            assertEquals(3L, driver.getKeyValueStore("words").get("to"));
            assertEquals(2L, driver.getKeyValueStore("words").get("be"));
            assertNull(driver.getKeyValueStore("words").get("never"));

            List<KeyValue<String, String>> joined =
                    driver.createOutputTopic(
                                    "joined", new StringDeserializer(), new StringDeserializer())
                            .readKeyValuesToList();
            assertEquals(
                    List.of(
                            KeyValue.pair("ada", "to see / yes"),
                            KeyValue.pair("ada", "again / yes")),
                    joined);

            try (var sessions = driver.<String, Long>getSessionStore("sessions").fetch("ada")) {
                assertEquals(2L, sessions.next().value);
                assertEquals(1L, sessions.next().value);
            }
            try (var paths = Files.walk(dir)) {
                List<Path> files = paths.toList();
                assertTrue(files.stream().anyMatch(path -> path.endsWith("esker/words")));
                assertTrue(files.stream().noneMatch(path -> path.endsWith("rocksdb")));
            }
        }
    }
}
