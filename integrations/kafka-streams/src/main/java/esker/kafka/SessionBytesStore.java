package esker.kafka;

import esker.Batch;
import esker.Keyspace;
import esker.Range;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Objects;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStore;

/** A session store. Its keys have the end and the start of the session; the end decides the segment. */
final class SessionBytesStore extends SegmentedStore implements SessionStore<Bytes, byte[]> {
    /** Of a key of the changelog: end and start. */
    private static final int CHANGELOG_SUFFIX = 2 * Long.BYTES;

    SessionBytesStore(Suppliers.OfSession supplier) {
        super(supplier.name(), supplier.retentionPeriod(), supplier.shared());
    }

    @Override
    void restore(Batch batch, byte[] key, byte[] value) {
        int length = key.length - CHANGELOG_SUFFIX;
        ByteBuffer suffix = ByteBuffer.wrap(key, length, CHANGELOG_SUFFIX);
        long end = suffix.getLong();
        restore(batch, Keys.encode(Arrays.copyOf(key, length), end, suffix.getLong()), value, end);
    }

    @Override
    public synchronized void put(Windowed<Bytes> session, byte[] aggregate) {
        Bytes key = Objects.requireNonNull(session, "session cannot be null").key();
        long end = session.window().end();
        put(Keys.encode(key.get(), end, session.window().start()), aggregate, end);
    }

    @Override
    public void remove(Windowed<Bytes> session) {
        put(session, null);
    }

    @Override
    public byte[] fetchSession(Bytes key, long start, long end) {
        Objects.requireNonNull(key, "key cannot be null");
        Keyspace segment = existing(end);
        return segment == null ? null : segment.get(Keys.encode(key.get(), end, start));
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
        byte[] from =
                keyFrom == null ? null : Keys.encode(keyFrom.get(), isOneKey ? first : 0, 0);
        byte[] to =
                keyTo == null ? null : Keys.encode(keyTo.get(), Long.MAX_VALUE, Long.MAX_VALUE);
        return scan(
                first,
                latestEnd,
                Range.closed(from, to),
                isBackward,
                key -> {
                    SessionWindow window = new SessionWindow(Keys.second(key), Keys.first(key));
                    return new Windowed<>(Bytes.wrap(Keys.key(key)), window);
                },
                key ->
                        Keys.first(key) >= first
                                && Keys.first(key) <= latestEnd
                                && Keys.second(key) <= latestStart);
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
