package esker.kafka;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.VersionedBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.VersionedKeyValueToBytesStoreAdapter;

/** Suppliers of stores, which the topology asks for one store for each partition. */
final class Suppliers {
    private static final String METRICS_SCOPE = "esker";
    private static final long SEGMENT_MILLIS_LEAST = 60_000;

    private Suppliers() {}

    /** Half of what is retained, as Kafka's own stores have it. */
    static long segmentMillis(long retention) {
        return Math.max(retention / 2, SEGMENT_MILLIS_LEAST);
    }

    record OfKeyValue(String name, boolean isTimestamped, Shared shared)
            implements KeyValueBytesStoreSupplier {
        @Override
        public KeyValueStore<Bytes, byte[]> get() {
            return isTimestamped
                    ? new KeyValueBytesStore.Timestamped(name, shared)
                    : new KeyValueBytesStore(name, shared);
        }

        @Override
        public String metricsScope() {
            return METRICS_SCOPE;
        }
    }

    record OfWindow(
            String name,
            long retentionPeriod,
            long windowSize,
            boolean retainDuplicates,
            boolean isTimestamped,
            Shared shared)
            implements WindowBytesStoreSupplier {
        @Override
        public WindowStore<Bytes, byte[]> get() {
            return isTimestamped
                    ? new WindowBytesStore.Timestamped(this)
                    : new WindowBytesStore(this);
        }

        @Override
        public long segmentIntervalMs() {
            return segmentMillis(retentionPeriod);
        }

        @Override
        public String metricsScope() {
            return METRICS_SCOPE;
        }
    }

    record OfSession(String name, long retentionPeriod, Shared shared)
            implements SessionBytesStoreSupplier {
        @Override
        public SessionStore<Bytes, byte[]> get() {
            return new SessionBytesStore(this);
        }

        @Override
        public long segmentIntervalMs() {
            return segmentMillis(retentionPeriod);
        }

        @Override
        public String metricsScope() {
            return METRICS_SCOPE;
        }
    }

    record OfVersioned(String name, long historyRetentionMs) implements VersionedBytesStoreSupplier {
        @Override
        public KeyValueStore<Bytes, byte[]> get() {
            return new VersionedKeyValueToBytesStoreAdapter(
                    new VersionedStore(name, historyRetentionMs, null));
        }

        @Override
        public String metricsScope() {
            return METRICS_SCOPE;
        }
    }
}
