package org.apache.kafka.streams.state.internals;

import esker.kafka.EskerDslStoreSuppliers;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.state.DslSessionParams;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;

/** Kafka's tests of session stores. */
class EskerSessionStoreTest extends AbstractSessionBytesStoreTest {
    @Override
    <K, V> SessionStore<K, V> buildSessionStore(long retention, Serde<K> keys, Serde<V> values) {
        DslSessionParams params =
                new DslSessionParams(
                        "session", Duration.ofMillis(retention), EmitStrategy.onWindowUpdate());
        return Stores.sessionStoreBuilder(
                        new EskerDslStoreSuppliers().sessionStore(params), keys, values)
                .build();
    }

    /** The kind whose rules of expiry are ours. */
    @Override
    StoreType storeType() {
        return StoreType.InMemoryStore;
    }
}
