package esker.kafka;

import esker.Batch;
import esker.Db;
import esker.Entry;
import esker.Keyspace;
import esker.Range;
import esker.Scan;
import esker.Snapshot;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.query.FailureReason;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.ResultOrder;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;
import org.apache.kafka.streams.state.internals.StoreQueryUtils;

/**
 * A versioned key-value store. A version is valid from its timestamp to that of the next version of its
 * key. A {@code null} is a version, too.
 *
 * <pre>
 * default keyspace   key                         -> version    the last one of the key, if not null
 * segment of time    length, key, end of validity -> version    all others
 * version            timestamp and value, or the inverted timestamp of a null
 * </pre>
 *
 * <p>Versions sort by the end of their validity, because it decides when they expire, and because the
 * first one that ends after a time is the one that was valid then. Each timestamp of a version is the
 * start of an entry or the end of one, so a write finds the version that follows it.
 */
final class VersionedStore extends SegmentedStore implements VersionedKeyValueStore<Bytes, byte[]> {
    private static final String CLOCK = "clock";
    private static final byte[] STREAM_TIME = {0};

    private final long retention;
    private Keyspace latest;

    VersionedStore(String name, long retention, Shared shared) {
        super(name, retention, shared);
        this.retention = retention;
    }

    @Override
    void opened(Db db) {
        super.opened(db);
        latest = db.defaultKeyspace();
        byte[] now = db.keyspaces().contains(CLOCK) ? db.openKeyspace(CLOCK).get(STREAM_TIME) : null;
        // A process that is killed may leave the keyspace without the time. No segment is dropped then.
        if (now != null) {
            resume(ByteBuffer.wrap(now).getLong());
        }
    }

    /**
     * Stores the stream time. Without it a write after a restart, as late as one before was too late,
     * would miss that dropped segments have the version that follows.
     */
    @Override
    void dropping(Db db) {
        byte[] now = ByteBuffer.allocate(Long.BYTES).putLong(streamTime()).array();
        db.write(new Batch().put(db.keyspace(CLOCK), STREAM_TIME, now).sync(true));
    }

    private Keyspace latest() {
        db();
        return latest;
    }

    // What is stored.

    private static byte[] version(byte[] value, long timestamp) {
        ByteBuffer version =
                ByteBuffer.allocate(Long.BYTES + (value == null ? 0 : value.length))
                        .putLong(value == null ? ~timestamp : timestamp);
        return (value == null ? version : version.put(value)).array();
    }

    static long timestamp(byte[] version) {
        long timestamp = ByteBuffer.wrap(version).getLong();
        return timestamp < 0 ? ~timestamp : timestamp;
    }

    private static byte[] value(byte[] version) {
        if (version[0] < 0) {
            return null;
        }
        byte[] value = new byte[version.length - Long.BYTES];
        System.arraycopy(version, Long.BYTES, value, 0, value.length);
        return value;
    }

    /** The key of a version that ends. The length keeps keys apart that are beginnings of others. */
    private static byte[] ended(byte[] key, long validTo) {
        return ByteBuffer.allocate(Integer.BYTES + key.length + Long.BYTES)
                .putInt(key.length)
                .put(key)
                .putLong(validTo)
                .array();
    }

    private static long validTo(byte[] ended) {
        return ByteBuffer.wrap(ended).getLong(ended.length - Long.BYTES);
    }

    private static byte[] key(Bytes key) {
        return Objects.requireNonNull(key, "key cannot be null").get();
    }

    private static long after(long time) {
        return time == Long.MAX_VALUE ? time : time + 1;
    }

    /** The versions of {@code key} that end at {@code first} or later, within a segment. */
    private static Range endingFrom(byte[] key, long first) {
        return Range.closed(ended(key, first), ended(key, Long.MAX_VALUE));
    }

    /** The first version that ends after {@code time}, or {@code null}. */
    private Entry endingAfter(byte[] key, long time) {
        Range range = endingFrom(key, after(time));
        for (Segment segment : found(after(time), Long.MAX_VALUE, key)) {
            Entry first =
                    read(
                            segment,
                            of -> {
                                try (Scan scan = of.scan(range)) {
                                    return scan.hasNext() ? scan.next() : null;
                                }
                            });
            if (first != null) {
                return first;
            }
        }
        return null;
    }

    // Writes.

    private boolean isExpired(long timestamp) {
        return timestamp < streamTime() - retention;
    }

    private long write(byte[] key, byte[] value, long timestamp) {
        if (timestamp < 0) {
            throw new IllegalArgumentException("negative timestamp " + timestamp);
        }
        if (isExpired(timestamp)) {
            return PUT_RETURN_CODE_NOT_PUT;
        }
        observe(timestamp);
        Batch batch = new Batch();
        byte[] version = version(value, timestamp);
        long validTo = add(batch, key, version, timestamp);
        if (validTo == PUT_RETURN_CODE_VALID_TO_UNDEFINED) {
            if (value == null) {
                batch.delete(latest(), key);
            } else {
                batch.put(latest(), key, version);
            }
        }
        db().write(batch);
        return validTo;
    }

    /** Adds what changes of the versions that end, and returns when the new one does. */
    private long add(Batch batch, byte[] key, byte[] version, long timestamp) {
        byte[] last = latest().get(key);
        long lastTimestamp = last == null ? Long.MAX_VALUE : timestamp(last);
        if (lastTimestamp < timestamp) {
            end(batch, key, timestamp, last);
            return PUT_RETURN_CODE_VALID_TO_UNDEFINED;
        }
        Entry next = lastTimestamp == timestamp ? null : endingAfter(key, timestamp);
        if (next == null && (last == null || lastTimestamp == timestamp)) {
            mark(batch, key, version, timestamp);
            return PUT_RETURN_CODE_VALID_TO_UNDEFINED;
        }
        long validTo;
        if (next == null) {
            validTo = lastTimestamp;
        } else if (timestamp(next.value()) > timestamp) {
            validTo = timestamp(next.value());
        } else {
            validTo = validTo(next.key());
            if (timestamp(next.value()) < timestamp) {
                end(batch, key, timestamp, next.value());
            }
        }
        end(batch, key, validTo, version);
        return validTo;
    }

    /** Adds a version that ends, unless nobody can see it any more. */
    private void end(Batch batch, byte[] key, long validTo, byte[] version) {
        Keyspace segment = segment(validTo, key, key.length);
        if (segment != null) {
            batch.put(segment, ended(key, validTo), version);
        }
    }

    /** Has the timestamp of a last version stored if the version is null, and no other ends there. */
    private void mark(Batch batch, byte[] key, byte[] version, long timestamp) {
        boolean isNull = version[0] < 0;
        Keyspace segment = isNull ? segment(timestamp, key, key.length) : null;
        if (segment != null && !segment.contains(ended(key, timestamp))) {
            batch.put(segment, ended(key, timestamp), version);
        }
    }

    @Override
    public synchronized long put(Bytes key, byte[] value, long timestamp) {
        byte[] raw = key(key);
        long validTo = call(() -> write(raw, value, timestamp));
        if (validTo == PUT_RETURN_CODE_NOT_PUT) {
            drop();
        }
        advance();
        return validTo;
    }

    @Override
    public synchronized VersionedRecord<byte[]> delete(Bytes key, long timestamp) {
        VersionedRecord<byte[]> before = isExpired(timestamp) ? null : get(key, timestamp);
        put(key, null, timestamp);
        return before;
    }

    @Override
    void restore(Batch batch, ConsumerRecord<byte[], byte[]> record) {
        // Each by itself: it has to find the versions before it.
        write(record.key(), record.value(), record.timestamp());
    }

    // Reads.

    @Override
    public VersionedRecord<byte[]> get(Bytes key) {
        return get(key, Long.MAX_VALUE);
    }

    @Override
    public VersionedRecord<byte[]> get(Bytes key, long asOf) {
        byte[] raw = key(key);
        return call(
                () -> {
                    byte[] last = latest().get(raw);
                    if (last != null && timestamp(last) <= asOf) {
                        return new VersionedRecord<>(value(last), timestamp(last));
                    }
                    if (asOf == Long.MAX_VALUE || isExpired(asOf)) {
                        return null;
                    }
                    Entry then = endingAfter(raw, asOf);
                    return then == null || timestamp(then.value()) > asOf
                            ? null
                            : endedRecord(then.key(), then.value());
                });
    }

    /** A version that ends, or {@code null} if its value is. */
    static VersionedRecord<byte[]> endedRecord(byte[] key, byte[] version) {
        byte[] value = value(version);
        return value == null
                ? null
                : new VersionedRecord<>(value, timestamp(version), validTo(key));
    }

    /** The versions that were valid from {@code from} to {@code to}, the latest first by default. */
    VersionedRecordIterator<byte[]> get(Bytes key, long from, long to, ResultOrder order) {
        byte[] raw = key(key);
        boolean isBackward = order != ResultOrder.ASCENDING;
        return call(
                () -> {
                    Snapshot snapshot = db().snapshot();
                    try {
                        return versions(snapshot, raw, from, to, isBackward);
                    } catch (RuntimeException error) {
                        snapshot.close();
                        throw error;
                    }
                });
    }

    private Versions versions(
            Snapshot snapshot, byte[] key, long from, long to, boolean isBackward) {
        byte[] last = snapshot.get(latest(), key);
        long first = Math.max(after(from), liveFrom());
        List<Segment> found =
                isExpired(to) ? new ArrayList<>() : found(first, Long.MAX_VALUE, key);
        Range range = endingFrom(key, first);
        Range walk = isBackward ? range.backward() : range;
        Scans scans = new Scans(found, isBackward, segment -> snapshot.scan(segment, walk));
        VersionedRecord<byte[]> lastRecord =
                last == null || timestamp(last) > to
                        ? null
                        : new VersionedRecord<>(value(last), timestamp(last));
        return new Versions(new Ended(scans, snapshot), lastRecord, to, isBackward);
    }

    /** The entries of versions that end, with the snapshot that they are of. */
    private final class Ended extends Entries<byte[]> {
        private final Snapshot snapshot;

        Ended(Scans scans, Snapshot snapshot) {
            super(VersionedStore.this, false, scans, key -> key, key -> true);
            this.snapshot = snapshot;
        }

        @Override
        public synchronized void close() {
            super.close();
            snapshot.close();
        }
    }

    @Override
    @SuppressWarnings("unchecked")
    public <R> QueryResult<R> query(Query<R> query, PositionBound bound, QueryConfig config) {
        if (!(query instanceof MultiVersionedKeyQuery<?, ?>)) {
            return super.query(query, bound, config);
        }
        // Kafka's own answer works for its store in RocksDB only.
        QueryResult<R> result;
        if (StoreQueryUtils.isPermitted(getPosition(), bound, partition())) {
            result = (QueryResult<R>) versions((MultiVersionedKeyQuery<Bytes, byte[]>) query);
        } else {
            result = QueryResult.notUpToBound(getPosition().copy(), bound, partition());
        }
        if (config.isCollectExecutionInfo()) {
            result.addExecutionInfo("handled by " + getClass());
        }
        result.setPosition(getPosition().copy());
        return result;
    }

    private QueryResult<VersionedRecordIterator<byte[]>> versions(
            MultiVersionedKeyQuery<Bytes, byte[]> query) {
        long from = query.fromTime().map(Instant::toEpochMilli).orElse(0L);
        long to = query.toTime().map(Instant::toEpochMilli).orElse(Long.MAX_VALUE);
        try {
            return QueryResult.forResult(get(query.key(), from, to, query.resultOrder()));
        } catch (RuntimeException error) {
            return QueryResult.forFailure(FailureReason.STORE_EXCEPTION, error.toString());
        }
    }
}
