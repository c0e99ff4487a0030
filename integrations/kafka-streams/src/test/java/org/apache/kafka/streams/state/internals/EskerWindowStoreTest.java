package org.apache.kafka.streams.state.internals;

import esker.kafka.EskerDslStoreSuppliers;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.state.DslWindowParams;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** Kafka's tests of window stores. */
class EskerWindowStoreTest extends AbstractWindowBytesStoreTest {
    @Override
    <K, V> WindowStore<K, V> buildWindowStore(
            long retention, long size, boolean duplicates, Serde<K> keys, Serde<V> values) {
        DslWindowParams params =
                new DslWindowParams(
                        "window",
                        Duration.ofMillis(retention),
                        Duration.ofMillis(size),
                        duplicates,
                        EmitStrategy.onWindowUpdate(),
                        false,
                        false);
        return Stores.windowStoreBuilder(
                        new EskerDslStoreSuppliers().windowStore(params), keys, values)
                .build();
    }
}
