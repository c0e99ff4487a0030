package esker.kafka;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.processor.CommitCallback;
import org.apache.kafka.streams.processor.StateRestoreCallback;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.internals.MockStreamsMetrics;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.state.DslKeyValueParams;
import org.apache.kafka.streams.state.DslSessionParams;
import org.apache.kafka.streams.state.DslStoreSuppliers;
import org.apache.kafka.streams.state.DslWindowParams;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.ThreadCache;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.apache.kafka.test.MockRecordCollector;

/** Stores without a topology around them. */
final class Fixture {
    static final long MINUTE = 60_000;

    private Fixture() {}

    /** A task, of which Kafka's mock forgets what a store wants to do at a commit. */
    private static final class Task extends InternalMockProcessorContext<Object, Object> {
        private final List<CommitCallback> callbacks = new ArrayList<>();

        private final Map<String, Object> configs;

        Task(Path dir, ThreadCache cache, Map<String, Object> configs) {
            super(
                    dir.toFile(),
                    Serdes.String(),
                    Serdes.String(),
                    new MockRecordCollector(),
                    cache);
            this.configs = configs;
        }

        @Override
        public Map<String, Object> appConfigs() {
            Map<String, Object> all = new HashMap<>(super.appConfigs());
            // The mock asks while it is made.
            if (configs != null) {
                all.putAll(configs);
            }
            return all;
        }

        @Override
        public void register(
                StateStore store, StateRestoreCallback restore, CommitCallback callback) {
            super.register(store, restore, callback);
            callbacks.add(callback);
        }

        @Override
        public void commit() {
            for (CommitCallback callback : callbacks) {
                try {
                    callback.onCommit();
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
            }
        }
    }

    /** A task whose stores are below {@code dir}, at the record 7 of its input. */
    static InternalMockProcessorContext<Object, Object> task(Path dir, long cacheBytes) {
        return task(dir, cacheBytes, Map.of());
    }

    /** The same, with these values in its configuration. */
    static InternalMockProcessorContext<Object, Object> task(
            Path dir, long cacheBytes, Map<String, Object> configs) {
        var cache =
                new ThreadCache(
                        new LogContext("test "), cacheBytes, new MockStreamsMetrics(new Metrics()));
        var task = new Task(dir, cache, configs);
        task.setTime(1);
        task.setRecordContext(new ProcessorRecordContext(1, 7, 0, "input", new RecordHeaders()));
        return task;
    }

    static EskerDslStoreSuppliers suppliers(Map<String, ?> configs) {
        EskerDslStoreSuppliers suppliers = new EskerDslStoreSuppliers();
        suppliers.configure(configs);
        return suppliers;
    }

    static KeyValueStore<Bytes, byte[]> keyValue(Path dir) {
        var store = suppliers(Map.of()).keyValueStore(new DslKeyValueParams("kv", false)).get();
        store.init(task(dir, 0), store);
        return store;
    }

    static DslWindowParams windows(long retention) {
        return new DslWindowParams(
                "windows",
                Duration.ofMillis(retention),
                Duration.ofMillis(MINUTE),
                false,
                EmitStrategy.onWindowUpdate(),
                false,
                false);
    }

    static DslSessionParams sessions(long retention) {
        return new DslSessionParams(
                "sessions", Duration.ofMillis(retention), EmitStrategy.onWindowUpdate());
    }

    static WindowStore<Bytes, byte[]> windowStore(DslStoreSuppliers suppliers, long retention) {
        return suppliers.windowStore(windows(retention)).get();
    }

    static SessionStore<Bytes, byte[]> sessionStore(DslStoreSuppliers suppliers, long retention) {
        return suppliers.sessionStore(sessions(retention)).get();
    }

    static Bytes key(String text) {
        return Bytes.wrap(text.getBytes(StandardCharsets.UTF_8));
    }

    static byte[] value(long number) {
        return ByteBuffer.allocate(Long.BYTES).putLong(number).array();
    }

    static ConsumerRecord<byte[], byte[]> changelog(byte[] key, byte[] value, long offset) {
        return new ConsumerRecord<>("changelog", 0, offset, key, value);
    }

    /** All entries, and closes the iterator. */
    static <K> List<KeyValue<K, byte[]>> all(KeyValueIterator<K, byte[]> entries) {
        List<KeyValue<K, byte[]>> read = new ArrayList<>();
        try (entries) {
            entries.forEachRemaining(read::add);
        }
        return read;
    }
}
