package org.apache.kafka.streams.state.internals;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import esker.kafka.VersionedAccess;
import java.util.ArrayList;
import java.util.Collection;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.ResultOrder;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * Kafka's tests of its versioned store. They make that store themselves, so one of the same class takes
 * its place, which passes all calls on to ours.
 */
class EskerVersionedStoreTest extends RocksDBVersionedStoreTest {
    private static final String NAME = "versioned";
    private static final long RETENTION = 300_000;

    private InternalMockProcessorContext<?, ?> task;

    @Override
    @BeforeEach
    public void before() {
        super.before();
        try {
            var field = RocksDBVersionedStoreTest.class.getDeclaredField("store");
            field.setAccessible(true);
            ((RocksDBVersionedStore) field.get(this)).close();
            var contextField = RocksDBVersionedStoreTest.class.getDeclaredField("context");
            contextField.setAccessible(true);
            task = (InternalMockProcessorContext<?, ?>) contextField.get(this);
            var ours = new Delegate(RETENTION, task);
            ours.init(task, ours);
            field.set(this, ours);
        } catch (ReflectiveOperationException error) {
            throw new AssertionError(error);
        }
    }

    /** Kafka's test makes a store in RocksDB within it, so this is another one of the same. */
    @Override
    @Test
    public void shouldAllowZeroHistoryRetention() {
        var store = VersionedAccess.make("none", 0);
        store.init(task, store);
        Bytes key = Bytes.wrap(new byte[] {1});
        byte[] value = {2};
        assertEquals(-1, store.put(key, value, 10));
        assertEquals(10, store.get(key).timestamp());
        assertEquals(10, store.get(key, 11).timestamp());
        assertEquals(-1, store.put(key, value, 10));
        assertEquals(-1, store.put(key, value, 12));
        assertNull(store.get(key, 11));
        assertEquals(12, store.get(key, 12).timestamp());
        assertEquals(12, store.delete(key, 12).timestamp());
        assertNull(store.get(key));
        store.delete(key, 13);
        assertEquals(
                VersionedKeyValueStore.PUT_RETURN_CODE_NOT_PUT,
                store.put(Bytes.wrap(new byte[] {3}), value, 12));
        assertEquals(-1, store.put(key, value, 13));
        assertEquals(13, store.get(key, 100).timestamp());
        store.close();
    }

    private static final class Delegate extends RocksDBVersionedStore {
        private final VersionedKeyValueStore<Bytes, byte[]> ours;
        private final InternalMockProcessorContext<?, ?> task;

        Delegate(long retention, InternalMockProcessorContext<?, ?> task) {
            super("unused", "unused", retention, retention);
            ours = VersionedAccess.make(NAME, retention);
            this.task = task;
        }

        @Override
        public long put(Bytes key, byte[] value, long timestamp) {
            return ours.put(key, value, timestamp);
        }

        @Override
        public VersionedRecord<byte[]> delete(Bytes key, long timestamp) {
            return ours.delete(key, timestamp);
        }

        @Override
        public VersionedRecord<byte[]> get(Bytes key) {
            return ours.get(key);
        }

        @Override
        public VersionedRecord<byte[]> get(Bytes key, long asOf) {
            return ours.get(key, asOf);
        }

        @Override
        VersionedRecordIterator<byte[]> get(Bytes key, long from, long to, ResultOrder order) {
            return VersionedAccess.get(ours, key, from, to, order);
        }

        @Override
        void restoreBatch(Collection<ConsumerRecord<byte[], byte[]>> records) {
            task.restoreWithHeaders(NAME, new ArrayList<>(records));
        }

        @Override
        public String name() {
            return ours.name();
        }

        @Override
        public void init(StateStoreContext context, StateStore root) {
            ours.init(context, root);
        }

        @Override
        public void flush() {
            ours.flush();
        }

        @Override
        public void close() {
            ours.close();
        }

        @Override
        public <R> QueryResult<R> query(
                Query<R> query, PositionBound bound, QueryConfig config) {
            return ours.query(query, bound, config);
        }

        @Override
        public boolean persistent() {
            return ours.persistent();
        }

        @Override
        public boolean isOpen() {
            return ours.isOpen();
        }

        @Override
        public Position getPosition() {
            return ours.getPosition();
        }
    }
}
