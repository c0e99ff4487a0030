package esker.kafka;

import java.util.Map;
import org.apache.kafka.streams.state.DslKeyValueParams;
import org.apache.kafka.streams.state.DslSessionParams;
import org.apache.kafka.streams.state.DslStoreSuppliers;
import org.apache.kafka.streams.state.DslWindowParams;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/**
 * Keeps the state of an application in Esker: the value of {@code dsl.store.suppliers.class}.
 *
 * <p>All stores of a process share one budget of memory and its background threads, whatever the number
 * of partitions: {@link #MEMORY_BYTES} and {@link #BACKGROUND_THREADS}.
 */
public final class EskerDslStoreSuppliers implements DslStoreSuppliers {
    /** The bytes of MemTables and caches of all stores together: {@code 128MiB} by default. */
    public static final String MEMORY_BYTES = "esker.memory.bytes";

    /** The threads of flushes and compactions of all stores together: 2 by default. */
    public static final String BACKGROUND_THREADS = "esker.background.threads";

    /**
     * The bytes of a MemTable of each store: {@code 16MiB} by default, and a quarter of
     * {@link #MEMORY_BYTES} at most. A value larger than a quarter of it is stored in a file of its own.
     */
    public static final String SEGMENT_BYTES = "esker.segment.bytes";

    private Shared shared = new Shared(Map.of());

    /** Made by Kafka Streams. */
    public EskerDslStoreSuppliers() {}

    @Override
    public void configure(Map<String, ?> configs) {
        shared = new Shared(configs);
    }

    @Override
    public KeyValueBytesStoreSupplier keyValueStore(DslKeyValueParams params) {
        return new Suppliers.OfKeyValue(params.name(), params.isTimestamped(), shared);
    }

    @Override
    public WindowBytesStoreSupplier windowStore(DslWindowParams params) {
        return new Suppliers.OfWindow(
                params.name(),
                params.retentionPeriod().toMillis(),
                params.windowSize().toMillis(),
                params.retainDuplicates(),
                params.isTimestamped(),
                shared);
    }

    @Override
    public SessionBytesStoreSupplier sessionStore(DslSessionParams params) {
        return new Suppliers.OfSession(params.name(), params.retentionPeriod().toMillis(), shared);
    }
}
