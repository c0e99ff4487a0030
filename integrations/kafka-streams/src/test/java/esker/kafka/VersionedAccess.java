package esker.kafka;

import java.util.Map;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.query.ResultOrder;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecordIterator;

/** A versioned store without its wrappers, for tests in Kafka's packages. */
public final class VersionedAccess {
    private VersionedAccess() {}

    public static VersionedKeyValueStore<Bytes, byte[]> make(String name, long retention) {
        return new VersionedStore(name, retention, new Shared(Map.of()));
    }

    public static VersionedRecordIterator<byte[]> get(
            VersionedKeyValueStore<Bytes, byte[]> store,
            Bytes key,
            long from,
            long to,
            ResultOrder order) {
        return ((VersionedStore) store).get(key, from, to, order);
    }
}
