package esker.kafka;

import esker.Batch;
import esker.Db;
import esker.Keyspace;
import esker.Range;
import esker.Scan;
import java.util.List;
import java.util.Objects;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;

/** A key-value store: its keys are those of the keyspace. */
class KeyValueBytesStore extends BytesStore implements KeyValueStore<Bytes, byte[]> {
    private Keyspace entries;

    KeyValueBytesStore(String name, Shared shared) {
        super(name, shared);
    }

    /** Its values have timestamps. */
    static final class Timestamped extends KeyValueBytesStore implements TimestampedBytesStore {
        Timestamped(String name, Shared shared) {
            super(name, shared);
        }
    }

    @Override
    void opened(Db db) {
        entries = db.defaultKeyspace();
    }

    @Override
    void restore(Batch batch, ConsumerRecord<byte[], byte[]> record) {
        add(batch, record.key(), record.value());
    }

    private void add(Batch batch, byte[] key, byte[] value) {
        if (value == null) {
            batch.delete(entries(), key);
        } else {
            batch.put(entries(), key, value);
        }
    }

    private Keyspace entries() {
        db();
        return entries;
    }

    private static byte[] key(Bytes key) {
        return Objects.requireNonNull(key, "key cannot be null").get();
    }

    @Override
    public synchronized void put(Bytes key, byte[] value) {
        byte[] bytes = key(key);
        run(
                () -> {
                    if (value == null) {
                        entries().delete(bytes);
                    } else {
                        entries().put(bytes, value);
                    }
                });
        advance();
    }

    @Override
    public synchronized byte[] putIfAbsent(Bytes key, byte[] value) {
        byte[] before = get(key);
        if (before == null) {
            put(key, value);
        }
        return before;
    }

    @Override
    public synchronized void putAll(List<KeyValue<Bytes, byte[]>> all) {
        run(
                () -> {
                    Batch batch = new Batch();
                    all.forEach(entry -> add(batch, key(entry.key), entry.value));
                    db().write(batch);
                });
        advance();
    }

    @Override
    public synchronized byte[] delete(Bytes key) {
        byte[] before = get(key);
        put(key, null);
        return before;
    }

    @Override
    public byte[] get(Bytes key) {
        byte[] bytes = key(key);
        return call(() -> entries().get(bytes));
    }

    private KeyValueIterator<Bytes, byte[]> scan(Range range) {
        Scan scan = call(() -> entries().scan(range));
        return new Entries<>(
                this, false, List.of(scan).iterator(), Bytes::wrap, key -> true);
    }

    private static Range between(Bytes from, Bytes to) {
        InvalidRange.warn(from, to);
        return Range.closed(from == null ? null : from.get(), to == null ? null : to.get());
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to) {
        return scan(between(from, to));
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseRange(Bytes from, Bytes to) {
        return scan(between(from, to).backward());
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> all() {
        return scan(Range.all());
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseAll() {
        return scan(Range.all().backward());
    }

    @Override
    public <PS extends Serializer<P>, P> KeyValueIterator<Bytes, byte[]> prefixScan(
            P prefix, PS serializer) {
        Objects.requireNonNull(prefix, "prefix cannot be null");
        Objects.requireNonNull(serializer, "serializer cannot be null");
        return scan(Range.prefix(serializer.serialize(null, prefix)));
    }

    @Override
    public long approximateNumEntries() {
        return call(() -> entries().approximateLength());
    }
}
