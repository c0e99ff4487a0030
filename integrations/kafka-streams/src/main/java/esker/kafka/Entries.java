package esker.kafka;

import esker.Entry;
import esker.Scan;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;

/**
 * The entries of scans, one after the other, with their keys decoded. The store may close it while
 * another thread reads.
 */
class Entries<K> implements KeyValueIterator<K, byte[]> {
    private final BytesStore store;
    private final boolean endsWithStore;
    private final Iterator<? extends Scan> scans;
    private final Function<byte[], K> decode;
    private final Predicate<byte[]> isIn;
    private Scan scan;
    private KeyValue<K, byte[]> next;
    private boolean isClosed;
    private boolean isClosedByStore;

    /**
     * Makes an iterator.
     *
     * @param endsWithStore whether {@code hasNext} is false once the store is closed, as Kafka's tests
     *     of window and session stores expect it; otherwise it throws, as with Kafka's key-value stores
     * @param scans the scans, opened one by one
     * @param isIn whether an entry with this key counts
     */
    Entries(
            BytesStore store,
            boolean endsWithStore,
            Iterator<? extends Scan> scans,
            Function<byte[], K> decode,
            Predicate<byte[]> isIn) {
        this.store = store;
        this.endsWithStore = endsWithStore;
        this.scans = scans;
        this.decode = decode;
        this.isIn = isIn;
        store.opened(this);
    }

    @Override
    public synchronized boolean hasNext() {
        if (isClosedByStore && !endsWithStore) {
            throw store.closedError(null);
        }
        return store.call(
                () -> {
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
                });
    }

    @Override
    public synchronized KeyValue<K, byte[]> next() {
        K key = peekNextKey();
        KeyValue<K, byte[]> entry = KeyValue.pair(key, next.value);
        next = null;
        return entry;
    }

    @Override
    public synchronized K peekNextKey() {
        if (!hasNext()) {
            throw isClosedByStore ? store.closedError(null) : new NoSuchElementException();
        }
        return next.key;
    }

    /** Closes it because its store is closed: its reader must not take that for the end. */
    synchronized void closeWithStore() {
        isClosedByStore = !isClosed;
        close();
    }

    @Override
    public synchronized void close() {
        isClosed = true;
        next = null;
        store.closed(this);
        if (scan != null) {
            scan.close();
        }
    }
}
