package esker.kafka;

import esker.Batch;
import esker.Db;
import esker.Keyspace;
import esker.Range;
import esker.Scan;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NavigableMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;
import org.apache.kafka.streams.processor.internals.metrics.TaskMetrics;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A store whose entries expire by stream time. A segment of time is a keyspace, so what has expired is
 * dropped at once. Segments are read in order of time, and within them keys in order.
 */
abstract class SegmentedStore extends BytesStore {
    private static final Logger LOG = LoggerFactory.getLogger(SegmentedStore.class);
    private static final String SEGMENT = "segment.";

    private final NavigableMap<Long, Keyspace> segments = new ConcurrentSkipListMap<>();
    private final long retention;
    private final long segmentMillis;
    private volatile long streamTime = -1;
    private Sensor dropped;

    SegmentedStore(String name, long retention, Shared shared) {
        super(name, shared);
        this.retention = retention;
        this.segmentMillis = Suppliers.segmentMillis(retention);
    }

    @Override
    public void init(StateStoreContext context, StateStore root) {
        StreamsMetricsImpl metrics = (StreamsMetricsImpl) context.metrics();
        dropped =
                TaskMetrics.droppedRecordsSensor(
                        Thread.currentThread().getName(), context.taskId().toString(), metrics);
        super.init(context, root);
    }

    @Override
    void opened(Db db) {
        segments.clear();
        for (String name : db.keyspaces()) {
            if (name.startsWith(SEGMENT)) {
                long id = Long.parseLong(name.substring(SEGMENT.length()));
                segments.put(id, db.openKeyspace(name));
            }
        }
    }

    @Override
    void closing() {
        segments.clear();
    }

    /** The first time that has not expired. */
    final long liveFrom() {
        return Math.max(0, streamTime - retention + 1);
    }

    /** The segment to write to at {@code time}, or {@code null} if it has expired. */
    final Keyspace segment(long time) {
        streamTime = Math.max(streamTime, time);
        if (time < liveFrom()) {
            return null;
        }
        long oldest = liveFrom() / segmentMillis;
        for (Keyspace expired : segments.headMap(oldest).values()) {
            db().drop(expired);
        }
        segments.headMap(oldest).clear();
        return segments.computeIfAbsent(
                time / segmentMillis, id -> db().keyspace(SEGMENT + id));
    }

    /** The segment to read from at {@code time}, or {@code null} if there is none. */
    final Keyspace existing(long time) {
        return time < liveFrom() ? null : segments.get(time / segmentMillis);
    }

    final void put(byte[] key, byte[] value, long time) {
        Keyspace segment = segment(time);
        if (segment == null) {
            dropped.record(1.0);
            LOG.warn("Skipping record for expired segment.");
        } else if (value == null) {
            segment.delete(key);
        } else {
            segment.put(key, value);
        }
        advance();
    }

    final void restore(Batch batch, byte[] key, byte[] value, long time) {
        Keyspace segment = segment(time);
        if (segment == null) {
            return;
        }
        if (value == null) {
            batch.delete(segment, key);
        } else {
            batch.put(segment, key, value);
        }
    }

    /** Entries of the segments with times from {@code from} to {@code to}. */
    final <K> Entries<K> scan(
            long from,
            long to,
            Range range,
            boolean isBackward,
            Function<byte[], K> decode,
            Predicate<byte[]> isIn) {
        long first = Math.max(from, liveFrom());
        NavigableMap<Long, Keyspace> found =
                to < first
                        ? Collections.emptyNavigableMap()
                        : segments.subMap(first / segmentMillis, true, to / segmentMillis, true);
        List<Keyspace> ordered =
                List.copyOf((isBackward ? found.descendingMap() : found).values());
        Range walk = isBackward ? range.backward() : range;
        // A segment is opened when it is reached, unless it has expired by then.
        Iterator<Scan> scans =
                ordered.stream()
                        .filter(segments::containsValue)
                        .map(segment -> segment.scan(walk))
                        .iterator();
        return new Entries<>(this, null, scans, decode, isIn);
    }

    static byte[] bytes(Bytes key) {
        return key == null ? null : key.get();
    }
}
