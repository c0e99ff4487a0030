package esker.kafka;

import java.time.Duration;
import java.util.Objects;
import org.apache.kafka.streams.state.VersionedBytesStoreSupplier;

/** Stores that a topology names itself. Their settings are those of {@link EskerDslStoreSuppliers}. */
public final class EskerStores {
    private EskerStores() {}

    /**
     * Returns a supplier of versioned stores, for {@code Stores.versionedKeyValueStoreBuilder} or
     * {@code Materialized.as}.
     *
     * @param name the name of the store
     * @param historyRetention how far back reads find versions, and how late writes may come
     */
    public static VersionedBytesStoreSupplier versionedKeyValueStore(
            String name, Duration historyRetention) {
        Objects.requireNonNull(name, "name cannot be null");
        if (historyRetention.isNegative()) {
            throw new IllegalArgumentException("historyRetention cannot be negative");
        }
        return new Suppliers.OfVersioned(name, historyRetention.toMillis());
    }
}
