package esker.kafka;

import esker.Batch;
import esker.Keyspace;
import esker.Range;
import java.util.Collection;
import java.util.List;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.utils.Bytes;

/**
 * A store of windows or sessions: a key has a time, which decides its segment.
 *
 * <p>Keys are those that Kafka's own stores have, which are also the keys of the changelog: the key,
 * then the times. Segments are read in order of time, and within them these keys in order. Kafka's
 * caches merge their entries with ours by this order, so no other order will do.
 */
abstract class TimeKeyedStore extends SegmentedStore {
    TimeKeyedStore(String name, long retention, Shared shared) {
        super(name, retention, shared);
    }

    /** The time in a key that decides its segment. */
    abstract long time(byte[] key);

    /** The length of the key in {@code key}, which has the times behind it. */
    abstract int length(byte[] key);

    final void put(byte[] key, byte[] value) {
        long time = time(key);
        run(
                () -> {
                    observe(time);
                    Keyspace segment = segment(time, key, length(key));
                    if (segment == null) {
                        drop();
                    } else if (value == null) {
                        segment.delete(key);
                    } else {
                        segment.put(key, value);
                    }
                });
        advance();
    }

    @Override
    void restoring(Collection<ConsumerRecord<byte[], byte[]>> records) {
        // Before the first batch: none may name a segment that a later record lets expire.
        records.stream().mapToLong(record -> time(record.key())).max().ifPresent(this::observe);
    }

    @Override
    void restore(Batch batch, ConsumerRecord<byte[], byte[]> record) {
        byte[] key = record.key();
        Keyspace segment = segment(time(key), key, length(key));
        if (segment == null) {
            return;
        }
        if (record.value() == null) {
            batch.delete(segment, key);
        } else {
            batch.put(segment, key, record.value());
        }
    }

    final byte[] get(byte[] key) {
        long time = time(key);
        if (time < liveFrom()) {
            return null;
        }
        Segment found = found(time);
        expectOpen();
        return call(() -> read(found, segment -> segment.get(key)));
    }

    void expectScannable() {
        expectOpen();
    }

    /**
     * Entries of the segments with times from {@code from} to {@code to}.
     *
     * @param key the only key in the range, or {@code null}
     */
    final <K> Entries<K> scan(
            long from,
            long to,
            Bytes key,
            Range range,
            boolean isBackward,
            Function<byte[], K> decode,
            Predicate<byte[]> isIn) {
        List<Segment> found = found(from, to, key == null ? null : key.get());
        Range walk = isBackward ? range.backward() : range;
        Scans scans = new Scans(found, isBackward, segment -> segment.scan(walk));
        expectScannable();
        return new Entries<>(this, true, scans, decode, isIn);
    }

    /** The range of raw keys between two that may be {@code null}, for an open end. */
    static Range between(Bytes from, Bytes to) {
        return Range.closed(from == null ? null : from.get(), to == null ? null : to.get());
    }

    /** Whether {@code key} is between two that may be {@code null}, for an open end. */
    static boolean isBetween(Bytes key, Bytes from, Bytes to) {
        return (from == null || key.compareTo(from) >= 0) && (to == null || key.compareTo(to) <= 0);
    }
}
