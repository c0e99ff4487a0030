package esker.kafka;

import esker.ClosedException;
import esker.Db;
import esker.EskerException;
import esker.Keyspace;
import esker.Scan;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NavigableMap;
import java.util.NoSuchElementException;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.function.Function;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;
import org.apache.kafka.streams.processor.internals.metrics.TaskMetrics;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A store whose entries expire by stream time. A segment of time is a keyspace, so what has expired is
 * dropped at once.
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

    /** The latest time that the store has seen, or -1. */
    final long streamTime() {
        return streamTime;
    }

    /** Sets the stream time to one that the store has seen before. */
    final void resume(long time) {
        streamTime = Math.max(streamTime, time);
    }

    /** The first time that has not expired. */
    final long liveFrom() {
        return Math.max(0, streamTime - retention + 1);
    }

    /** Advances the stream time, and drops the segments that have expired. */
    final void observe(long time) {
        if (time <= streamTime) {
            return;
        }
        streamTime = time;
        Db db = db();
        NavigableMap<Long, Keyspace> expired =
                segments.headMap(liveFrom() / segmentMillis, false);
        if (expired.isEmpty()) {
            return;
        }
        dropping(db);
        Iterator<Keyspace> each = expired.values().iterator();
        while (each.hasNext()) {
            Keyspace segment = each.next();
            // First out of the map: a reader that fails sees there that the segment has expired.
            each.remove();
            db.drop(segment);
        }
    }

    /** Prepares for a drop of segments. */
    void dropping(Db db) {}

    /** Counts a record that came too late. */
    final void drop() {
        dropped.record(1.0);
        LOG.warn("Skipping record for expired segment.");
    }

    /** The segment to write to at {@code time}, or {@code null} if it has expired. */
    final Keyspace segment(long time) {
        if (time < liveFrom()) {
            return null;
        }
        // The first use opens the database, and finds the segments that there are.
        Db db = db();
        return segments.computeIfAbsent(time / segmentMillis, id -> db.keyspace(SEGMENT + id));
    }

    /** The segment to read at {@code time}, or {@code null} if there is none. */
    final Keyspace found(long time) {
        return time < liveFrom() ? null : segments.get(time / segmentMillis);
    }

    /** The segments that have times from {@code from} to {@code to}, in order of time. */
    final NavigableMap<Long, Keyspace> found(long from, long to) {
        long first = Math.max(from, liveFrom());
        return to < first
                ? Collections.emptyNavigableMap()
                : segments.subMap(first / segmentMillis, true, to / segmentMillis, true);
    }

    /** After a look at the segments: a store that is closed has none, which would be no answer. */
    final void expectOpen() {
        if (!isOpen()) {
            throw closedError(null);
        }
    }

    /** Reads a segment, or returns {@code null} if there is none or it has expired meanwhile. */
    final <T> T read(Keyspace segment, Function<Keyspace, T> read) {
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

    /** The scans of segments, each of which is opened when it is reached. */
    final class Scans implements Iterator<Scan> {
        private final Iterator<Keyspace> segments;
        private final Function<Keyspace, Scan> open;
        private Scan next;

        Scans(NavigableMap<Long, Keyspace> found, boolean isBackward, Function<Keyspace, Scan> open) {
            segments = List.copyOf((isBackward ? found.descendingMap() : found).values()).iterator();
            this.open = open;
        }

        @Override
        public boolean hasNext() {
            while (next == null && segments.hasNext()) {
                next = read(segments.next(), open);
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
}
