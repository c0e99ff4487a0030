package esker.kafka;

import esker.Batch;
import esker.Keyspace;
import esker.Range;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Objects;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** A window store. Its keys have the start of the window and a number that distinguishes duplicates. */
class WindowBytesStore extends SegmentedStore implements WindowStore<Bytes, byte[]> {
    /** Of a key of the changelog: the start and the number. */
    private static final int CHANGELOG_SUFFIX = Long.BYTES + Integer.BYTES;

    private final long windowSize;
    private final boolean retainDuplicates;
    private int number;

    WindowBytesStore(Suppliers.OfWindow supplier) {
        super(supplier.name(), supplier.retentionPeriod(), supplier.shared());
        windowSize = supplier.windowSize();
        retainDuplicates = supplier.retainDuplicates();
    }

    /** Its values have timestamps. */
    static final class Timestamped extends WindowBytesStore implements TimestampedBytesStore {
        Timestamped(Suppliers.OfWindow supplier) {
            super(supplier);
        }
    }

    @Override
    void restore(Batch batch, byte[] key, byte[] value) {
        int length = key.length - CHANGELOG_SUFFIX;
        ByteBuffer suffix = ByteBuffer.wrap(key, length, CHANGELOG_SUFFIX);
        long start = suffix.getLong();
        restore(batch, Keys.encode(Arrays.copyOf(key, length), start, suffix.getInt()), value, start);
    }

    @Override
    public synchronized void put(Bytes key, byte[] value, long start) {
        Objects.requireNonNull(key, "key cannot be null");
        // Duplicates are not deleted one by one.
        if (!(value == null && retainDuplicates)) {
            if (retainDuplicates) {
                number = (number + 1) & Integer.MAX_VALUE;
            }
            put(Keys.encode(key.get(), start, number), value, start);
        }
    }

    @Override
    public byte[] fetch(Bytes key, long start) {
        Objects.requireNonNull(key, "key cannot be null");
        Keyspace segment = existing(start);
        return segment == null ? null : segment.get(Keys.encode(key.get(), start, 0));
    }

    private WindowStoreIterator<byte[]> fetch(Bytes key, long from, long to, boolean isBackward) {
        Objects.requireNonNull(key, "key cannot be null");
        long first = Math.max(from, liveFrom());
        if (to < first) {
            return new OfOneKey(windows(Range.all(), first, to, isBackward));
        }
        byte[] start = Keys.encode(key.get(), first, 0);
        byte[] end = Keys.encode(key.get(), to, Long.MAX_VALUE);
        return new OfOneKey(windows(Range.closed(start, end), first, to, isBackward));
    }

    private KeyValueIterator<Windowed<Bytes>, byte[]> fetch(
            Bytes keyFrom, Bytes keyTo, long from, long to, boolean isBackward) {
        InvalidRange.warn(keyFrom, keyTo);
        byte[] start = keyFrom == null ? null : Keys.encode(keyFrom.get(), 0, 0);
        byte[] end =
                keyTo == null ? null : Keys.encode(keyTo.get(), Long.MAX_VALUE, Long.MAX_VALUE);
        return windows(Range.closed(start, end), Math.max(from, liveFrom()), to, isBackward);
    }

    private Entries<Windowed<Bytes>> windows(Range range, long from, long to, boolean isBackward) {
        return scan(
                from,
                to,
                range,
                isBackward,
                key -> {
                    long start = Keys.first(key);
                    long end = start + windowSize < 0 ? Long.MAX_VALUE : start + windowSize;
                    return new Windowed<>(Bytes.wrap(Keys.key(key)), new TimeWindow(start, end));
                },
                key -> Keys.first(key) >= from && Keys.first(key) <= to);
    }

    @Override
    public WindowStoreIterator<byte[]> fetch(Bytes key, long from, long to) {
        return fetch(key, from, to, false);
    }

    @Override
    public WindowStoreIterator<byte[]> backwardFetch(Bytes key, long from, long to) {
        return fetch(key, from, to, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(
            Bytes keyFrom, Bytes keyTo, long from, long to) {
        return fetch(keyFrom, keyTo, from, to, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(
            Bytes keyFrom, Bytes keyTo, long from, long to) {
        return fetch(keyFrom, keyTo, from, to, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetchAll(long from, long to) {
        return fetch(null, null, from, to, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetchAll(long from, long to) {
        return fetch(null, null, from, to, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> all() {
        return fetch(null, null, 0, Long.MAX_VALUE, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardAll() {
        return fetch(null, null, 0, Long.MAX_VALUE, true);
    }

    /** The windows of one key, by their starts. */
    private record OfOneKey(Entries<Windowed<Bytes>> entries)
            implements WindowStoreIterator<byte[]> {
        @Override
        public boolean hasNext() {
            return entries.hasNext();
        }

        @Override
        public Long peekNextKey() {
            return entries.peekNextKey().window().start();
        }

        @Override
        public KeyValue<Long, byte[]> next() {
            KeyValue<Windowed<Bytes>, byte[]> next = entries.next();
            return KeyValue.pair(next.key.window().start(), next.value);
        }

        @Override
        public void close() {
            entries.close();
        }
    }
}
