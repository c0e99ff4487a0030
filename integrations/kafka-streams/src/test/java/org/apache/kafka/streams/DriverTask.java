package org.apache.kafka.streams;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;

/**
 * Runs the task of a {@link TopologyTestDriver} as a thread of Kafka Streams does: many records between
 * two commits. The driver itself commits after each record. It is in this package for the task.
 */
public final class DriverTask implements AutoCloseable {
    private final TopologyTestDriver driver;
    private final MockProducer<byte[], byte[]> producer;
    private final Set<TopicPartition> inputs;
    private final Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> added = new HashMap<>();
    private final Map<TopicPartition, Long> offsets = new HashMap<>();

    @SuppressWarnings("unchecked")
    public DriverTask(Topology topology, Properties properties)
            throws ReflectiveOperationException {
        driver = new TopologyTestDriver(topology, properties);
        var field = TopologyTestDriver.class.getDeclaredField("producer");
        field.setAccessible(true);
        producer = (MockProducer<byte[], byte[]>) field.get(driver);
        inputs = driver.task.inputPartitions();
    }

    /** Adds a record for the next {@link #process}. */
    public void add(String topic, long time, byte[] key, byte[] value) {
        TopicPartition partition = new TopicPartition(topic, 0);
        added.computeIfAbsent(partition, name -> new ArrayList<>())
                .add(
                        new ConsumerRecord<>(
                                topic,
                                0,
                                offsets.merge(partition, 1L, Long::sum) - 1,
                                time,
                                TimestampType.CREATE_TIME,
                                key.length,
                                value.length,
                                key,
                                value,
                                new RecordHeaders(),
                                Optional.empty()));
    }

    /** Processes all records, also those that the topology repartitions. Its output is dropped. */
    public void process() {
        while (!added.isEmpty()) {
            added.forEach((partition, records) -> driver.task.addRecords(partition, records));
            added.clear();
            driver.task.updateLags();
            while (driver.task.hasRecordsQueued() && driver.task.isProcessable(0)) {
                driver.task.process(0);
            }
            driver.task.maybePunctuateStreamTime();
            receive();
        }
    }

    private void receive() {
        for (ProducerRecord<byte[], byte[]> record : producer.history()) {
            if (inputs.contains(new TopicPartition(record.topic(), 0))) {
                add(record.topic(), record.timestamp(), record.key(), record.value());
            }
        }
        producer.clear();
    }

    /** Commits. The stores are flushed if there were more than 10,000 records since they last were. */
    public void commit() {
        driver.task.prepareCommit(true);
        driver.task.postCommit(false);
        receive();
    }

    @Override
    public void close() {
        driver.close();
    }
}
