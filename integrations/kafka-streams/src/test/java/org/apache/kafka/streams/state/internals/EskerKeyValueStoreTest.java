package org.apache.kafka.streams.state.internals;

import esker.kafka.EskerDslStoreSuppliers;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.state.DslKeyValueParams;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** Kafka's tests of key-value stores. They are in this package, because some need its members. */
class EskerKeyValueStoreTest extends AbstractKeyValueStoreTest {
    @Override
    @SuppressWarnings("unchecked")
    protected <K, V> KeyValueStore<K, V> createKeyValueStore(StateStoreContext context) {
        KeyValueStore<K, V> store =
                Stores.keyValueStoreBuilder(
                                new EskerDslStoreSuppliers()
                                        .keyValueStore(new DslKeyValueParams("store", false)),
                                (Serde<K>) context.keySerde(),
                                (Serde<V>) context.valueSerde())
                        .build();
        store.init(context, store);
        return store;
    }
}
