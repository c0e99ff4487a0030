package esker.kafka;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Objects;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.internals.SessionKeySchema;

/** A session store. Its keys have the end and the start of the session; the end decides the segment. */
final class SessionBytesStore extends TimeKeyedStore implements SessionStore<Bytes, byte[]> {
    /** The bytes after the key: the end and the start of the session. */
    private static final int SUFFIX = 2 * Long.BYTES;
    private static final SessionKeySchema SCHEMA = new SessionKeySchema();

    SessionBytesStore(Suppliers.OfSession supplier) {
        super(supplier.name(), supplier.retentionPeriod(), supplier.shared());
    }

    @Override
    long time(byte[] key) {
        return ByteBuffer.wrap(key).getLong(key.length - SUFFIX);
    }

    /** Kafka's tests read a session store that is closed, and expect no entries. */
    @Override
    void expectScannable() {}

    private static long start(byte[] raw) {
        return ByteBuffer.wrap(raw).getLong(raw.length - Long.BYTES);
    }

    @Override
    int length(byte[] key) {
        return key.length - SUFFIX;
    }

    private static Bytes key(byte[] raw) {
        return Bytes.wrap(Arrays.copyOf(raw, raw.length - SUFFIX));
    }

    @Override
    public synchronized void put(Windowed<Bytes> session, byte[] aggregate) {
        Objects.requireNonNull(session, "session cannot be null");
        put(SessionKeySchema.toBinary(session).get(), aggregate);
    }

    @Override
    public void remove(Windowed<Bytes> session) {
        put(session, null);
    }

    @Override
    public byte[] fetchSession(Bytes key, long start, long end) {
        Objects.requireNonNull(key, "key cannot be null");
        return get(SessionKeySchema.toBinary(key, start, end).get());
    }

    private KeyValueIterator<Windowed<Bytes>, byte[]> find(
            Bytes keyFrom, Bytes keyTo, long earliestEnd, long latestStart, boolean isBackward) {
        return sessions(keyFrom, keyTo, earliestEnd, Long.MAX_VALUE, latestStart, isBackward);
    }

    private KeyValueIterator<Windowed<Bytes>, byte[]> sessions(
            Bytes keyFrom,
            Bytes keyTo,
            long earliestEnd,
            long latestEnd,
            long latestStart,
            boolean isBackward) {
        InvalidRange.warn(keyFrom, keyTo);
        long first = Math.max(earliestEnd, liveFrom());
        boolean isOneKey = keyFrom != null && keyFrom.equals(keyTo);
        long starts = Math.max(0, latestStart);
        Bytes from =
                isOneKey
                        ? SCHEMA.lowerRangeFixedSize(keyFrom, first)
                        : SCHEMA.lowerRange(keyFrom, first);
        Bytes to =
                isOneKey
                        ? SCHEMA.upperRangeFixedSize(keyTo, starts)
                        : SCHEMA.upperRange(keyTo, starts);
        return scan(
                first,
                latestEnd,
                isOneKey ? keyFrom : null,
                between(from, to),
                isBackward,
                raw -> SessionKeySchema.from(Bytes.wrap(raw)),
                raw ->
                        time(raw) >= first
                                && time(raw) <= latestEnd
                                && start(raw) <= latestStart
                                && isBetween(key(raw), keyFrom, keyTo));
    }

    private static Bytes given(Bytes key) {
        return Objects.requireNonNull(key, "key cannot be null");
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(
            long earliestEnd, long latestEnd) {
        return sessions(null, null, earliestEnd, latestEnd, Long.MAX_VALUE, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(
            Bytes key, long earliestEnd, long latestStart) {
        return find(given(key), key, earliestEnd, latestStart, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(
            Bytes key, long earliestEnd, long latestStart) {
        return find(given(key), key, earliestEnd, latestStart, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(
            Bytes keyFrom, Bytes keyTo, long earliestEnd, long latestStart) {
        return find(keyFrom, keyTo, earliestEnd, latestStart, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(
            Bytes keyFrom, Bytes keyTo, long earliestEnd, long latestStart) {
        return find(keyFrom, keyTo, earliestEnd, latestStart, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes key) {
        return find(given(key), key, 0, Long.MAX_VALUE, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes key) {
        return find(given(key), key, 0, Long.MAX_VALUE, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes keyFrom, Bytes keyTo) {
        return find(keyFrom, keyTo, 0, Long.MAX_VALUE, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes keyFrom, Bytes keyTo) {
        return find(keyFrom, keyTo, 0, Long.MAX_VALUE, true);
    }
}
