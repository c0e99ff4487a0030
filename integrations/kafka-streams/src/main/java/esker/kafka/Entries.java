package esker.kafka;

import esker.Entry;
import esker.Scan;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;

/** The entries of scans, one after the other, with their keys decoded. */
class Entries<K> implements KeyValueIterator<K, byte[]> {
    private final BytesStore store;
    private final Iterator<? extends Scan> scans;
    private final Function<byte[], K> decode;
    private final Predicate<byte[]> isIn;
    private Scan scan;
    private KeyValue<K, byte[]> next;
    private boolean isClosed;

    /**
     * Makes an iterator.
     *
     * @param first a scan that is open, or {@code null}
     * @param scans the next ones, opened one by one
     * @param isIn whether an entry with this key counts
     */
    Entries(
            BytesStore store,
            Scan first,
            Iterator<? extends Scan> scans,
            Function<byte[], K> decode,
            Predicate<byte[]> isIn) {
        this.store = store;
        this.scan = first;
        this.scans = scans;
        this.decode = decode;
        this.isIn = isIn;
        store.opened(this);
    }

    @Override
    public boolean hasNext() {
        while (next == null && !isClosed) {
            if (scan != null && scan.hasNext()) {
                Entry entry = scan.next();
                if (isIn.test(entry.key())) {
                    next = KeyValue.pair(decode.apply(entry.key()), entry.value());
                }
            } else if (scans.hasNext()) {
                scan = scans.next();
            } else {
                return false;
            }
        }
        return next != null;
    }

    @Override
    public KeyValue<K, byte[]> next() {
        K key = peekNextKey();
        KeyValue<K, byte[]> entry = KeyValue.pair(key, next.value);
        next = null;
        return entry;
    }

    @Override
    public K peekNextKey() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        return next.key;
    }

    @Override
    public void close() {
        isClosed = true;
        next = null;
        if (scan != null) {
            scan.close();
        }
        store.closed(this);
    }
}
