package esker.kafka;

import esker.ClosedException;
import esker.Db;
import esker.EskerException;
import esker.Keyspace;
import esker.Scan;
import java.util.ArrayList;
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

    private final NavigableMap<Long, Segment> segments = new ConcurrentSkipListMap<>();
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
                segments.put(id, new Segment(db.openKeyspace(name), null));
            }
        }
    }

    @Override
    void closing() {
        segments.values().forEach(Segment::forget);
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
        NavigableMap<Long, Segment> expired =
                segments.headMap(liveFrom() / segmentMillis, false);
        if (expired.isEmpty()) {
            return;
        }
        dropping(db);
        Iterator<Segment> each = expired.values().iterator();
        while (each.hasNext()) {
            Segment segment = each.next();
            // First out of the map: a reader that fails sees there that the segment has expired.
            each.remove();
            segment.forget();
            db.drop(segment.entries());
        }
    }

    /** Prepares for a drop of segments. */
    void dropping(Db db) {}

    /** Counts a record that came too late. */
    final void drop() {
        dropped.record(1.0);
        LOG.warn("Skipping record for expired segment.");
    }

    /**
     * The segment in which to write an entry of {@code time}, or {@code null} if it has expired.
     *
     * @param key begins with the key of the entry, of {@code length} bytes
     */
    final Keyspace segment(long time, byte[] key, int length) {
        if (time < liveFrom()) {
            return null;
        }
        // The first use opens the database, and finds the segments that there are.
        Db db = db();
        Segment segment = segments.get(time / segmentMillis);
        if (segment == null) {
            segment = segments.computeIfAbsent(time / segmentMillis, id -> create(db, id));
        }
        // Before the write: no read may miss an entry that it could see.
        segment.willHave(key, length);
        return segment.entries();
    }

    private Segment create(Db db, long id) {
        return new Segment(db.keyspace(SEGMENT + id), new KeyFilter(filterMemory()));
    }

    /** The segment to read at {@code time}, or {@code null} if there is none. */
    final Segment found(long time) {
        return time < liveFrom() ? null : segments.get(time / segmentMillis);
    }

    /**
     * The segments that have times from {@code from} to {@code to}, in order of time. If {@code key} is
     * not {@code null}, those without it may be left out.
     */
    final List<Segment> found(long from, long to, byte[] key) {
        List<Segment> found = new ArrayList<>();
        long first = Math.max(from, liveFrom());
        if (to >= first) {
            NavigableMap<Long, Segment> all =
                    segments.subMap(first / segmentMillis, true, to / segmentMillis, true);
            for (Segment segment : all.values()) {
                if (key == null || segment.mayHave(key)) {
                    found.add(segment);
                }
            }
        }
        return found;
    }

    /** After a look at the segments: a store that is closed has none, which would be no answer. */
    final void expectOpen() {
        if (!isOpen()) {
            throw closedError(null);
        }
    }

    /** Reads a segment, or returns {@code null} if there is none or it has expired meanwhile. */
    final <T> T read(Segment segment, Function<Keyspace, T> read) {
        if (segment == null) {
            return null;
        }
        try {
            return read.apply(segment.entries());
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
        private final Iterator<Segment> segments;
        private final Function<Keyspace, Scan> open;
        private Scan next;

        /** Makes an iterator of {@code found}, which is in order of time. */
        Scans(List<Segment> found, boolean isBackward, Function<Keyspace, Scan> open) {
            if (isBackward) {
                Collections.reverse(found);
            }
            segments = found.iterator();
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
