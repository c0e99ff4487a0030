package esker.kafka;

import esker.Range;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Objects;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.apache.kafka.streams.state.internals.WindowKeySchema;

/** A window store. Its keys have the start of the window and a number that distinguishes duplicates. */
class WindowBytesStore extends TimeKeyedStore implements WindowStore<Bytes, byte[]> {
    /** The bytes after the key: the start of the window and the number. */
    private static final int SUFFIX = Long.BYTES + Integer.BYTES;
    private static final WindowKeySchema SCHEMA = new WindowKeySchema();

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
    long time(byte[] key) {
        return ByteBuffer.wrap(key).getLong(key.length - SUFFIX);
    }

    @Override
    int length(byte[] key) {
        return key.length - SUFFIX;
    }

    private static Bytes key(byte[] raw) {
        return Bytes.wrap(Arrays.copyOf(raw, raw.length - SUFFIX));
    }

    @Override
    public synchronized void put(Bytes key, byte[] value, long start) {
        Objects.requireNonNull(key, "key cannot be null");
        // Duplicates are not deleted one by one.
        if (!(value == null && retainDuplicates)) {
            if (retainDuplicates) {
                number = (number + 1) & Integer.MAX_VALUE;
            }
            put(WindowKeySchema.toStoreKeyBinary(key, start, number).get(), value);
        }
    }

    @Override
    public byte[] fetch(Bytes key, long start) {
        Objects.requireNonNull(key, "key cannot be null");
        return get(WindowKeySchema.toStoreKeyBinary(key, start, 0).get());
    }

    private WindowStoreIterator<byte[]> fetch(Bytes key, long from, long to, boolean isBackward) {
        Objects.requireNonNull(key, "key cannot be null");
        long first = Math.max(from, liveFrom());
        if (to < first) {
            return new OfOneKey(windows(Range.all(), key, key, first, to, isBackward));
        }
        Range range =
                between(SCHEMA.lowerRangeFixedSize(key, first), SCHEMA.upperRangeFixedSize(key, to));
        return new OfOneKey(windows(range, key, key, first, to, isBackward));
    }

    private KeyValueIterator<Windowed<Bytes>, byte[]> fetch(
            Bytes keyFrom, Bytes keyTo, long from, long to, boolean isBackward) {
        InvalidRange.warn(keyFrom, keyTo);
        long first = Math.max(from, liveFrom());
        Bytes start = keyFrom == null ? null : SCHEMA.lowerRange(keyFrom, first);
        Bytes end = keyTo == null ? null : SCHEMA.upperRange(keyTo, to);
        return windows(between(start, end), keyFrom, keyTo, first, to, isBackward);
    }

    private Entries<Windowed<Bytes>> windows(
            Range range, Bytes keyFrom, Bytes keyTo, long from, long to, boolean isBackward) {
        return scan(
                from,
                to,
                keyFrom != null && keyFrom.equals(keyTo) ? keyFrom : null,
                range,
                isBackward,
                raw -> WindowKeySchema.fromStoreBytesKey(raw, windowSize),
                raw ->
                        time(raw) >= from
                                && time(raw) <= to
                                && isBetween(key(raw), keyFrom, keyTo));
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
