package esker.kafka;

import esker.Batch;
import esker.ClosedException;
import esker.Db;
import esker.EskerException;
import esker.Keyspace;
import esker.Range;
import esker.Scan;
import java.util.Collection;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.NoSuchElementException;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.kafka.clients.consumer.ConsumerRecord;
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
 * dropped at once.
 *
 * <p>Keys are those that Kafka's own stores have, which are also the keys of the changelog: the key,
 * then the times. Segments are read in order of time, and within them these keys in order. Kafka's
 * caches merge their entries with ours by this order, so no other order will do.
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

    /** The time in a key that decides its segment. */
    abstract long time(byte[] key);

    /** The first time that has not expired. */
    final long liveFrom() {
        return Math.max(0, streamTime - retention + 1);
    }

    /** Advances the stream time, and drops the segments that have expired. */
    private void observe(long time) {
        if (time <= streamTime) {
            return;
        }
        streamTime = time;
        Db db = db();
        Iterator<Map.Entry<Long, Keyspace>> expired =
                segments.headMap(liveFrom() / segmentMillis).entrySet().iterator();
        while (expired.hasNext()) {
            Keyspace segment = expired.next().getValue();
            // First out of the map: a reader that fails sees there that the segment has expired.
            expired.remove();
            db.drop(segment);
        }
    }

    /** The segment to write to at {@code time}, or {@code null} if it has expired. */
    private Keyspace segment(long time) {
        if (time < liveFrom()) {
            return null;
        }
        // The first use opens the database, and finds the segments that there are.
        Db db = db();
        return segments.computeIfAbsent(time / segmentMillis, id -> db.keyspace(SEGMENT + id));
    }

    final void put(byte[] key, byte[] value) {
        long time = time(key);
        run(
                () -> {
                    observe(time);
                    Keyspace segment = segment(time);
                    if (segment == null) {
                        dropped.record(1.0);
                        LOG.warn("Skipping record for expired segment.");
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
    void restore(Batch batch, byte[] key, byte[] value) {
        Keyspace segment = segment(time(key));
        if (segment == null) {
            return;
        }
        if (value == null) {
            batch.delete(segment, key);
        } else {
            batch.put(segment, key, value);
        }
    }

    final byte[] get(byte[] key) {
        long time = time(key);
        if (time < liveFrom()) {
            return null;
        }
        Keyspace found = segments.get(time / segmentMillis);
        expectOpen();
        return call(() -> read(found, segment -> segment.get(key)));
    }

    /** After a look at the segments: a store that is closed has none, which would be no answer. */
    private void expectOpen() {
        if (!isOpen()) {
            throw closedError(null);
        }
    }

    void expectScannable() {
        expectOpen();
    }

    /** Reads a segment, or returns {@code null} if there is none or it has expired meanwhile. */
    private <T> T read(Keyspace segment, Function<Keyspace, T> read) {
        if (segment == null) {
            return null;
        }
        try {
            return read.apply(segment);
        } catch (ClosedException error) {
            throw error;
        } catch (EskerException error) {
            if (segments.containsValue(segment) || !isOpen()) {
                throw error;
            }
            return null;
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
        expectScannable();
        Range walk = isBackward ? range.backward() : range;
        return new Entries<>(this, true, new Scans(ordered, walk), decode, isIn);
    }

    /** The scans of segments, each of which is opened when it is reached. */
    private final class Scans implements Iterator<Scan> {
        private final Iterator<Keyspace> segments;
        private final Range range;
        private Scan next;

        Scans(List<Keyspace> segments, Range range) {
            this.segments = segments.iterator();
            this.range = range;
        }

        @Override
        public boolean hasNext() {
            while (next == null && segments.hasNext()) {
                next = read(segments.next(), segment -> segment.scan(range));
            }
            return next != null;
        }

        @Override
        public Scan next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            Scan scan = next;
            next = null;
            return scan;
        }
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
