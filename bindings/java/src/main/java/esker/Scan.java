package esker;

import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.NoSuchElementException;

/**
 * The entries of a range in order. It reads at one snapshot, or as its transaction sees them, and
 * fetches entries in chunks that grow. Its last entry closes it. One thread at once may use it.
 */
public abstract class Scan implements Iterator<Entry>, AutoCloseable {
    static final int FIRST_BYTES = 4 << 10;

    private static final int MOST_BYTES = 256 << 10;

    private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

    private ByteBuffer chunk;
    private int bytes;
    private boolean isDone;
    private EskerException failed;

    /** Makes one that has fetched nothing yet. */
    Scan() {
        chunk = NOTHING;
        bytes = FIRST_BYTES;
    }

    /** Makes one that begins with a chunk of {@code FIRST_BYTES}. */
    Scan(ByteBuffer first) {
        chunk = first;
        bytes = 2 * FIRST_BYTES;
    }

    /** The next entries, or {@code null}. */
    abstract byte[] fetch(int maxBytes);

    @Override
    public boolean hasNext() {
        if (chunk.hasRemaining()) {
            return true;
        }
        if (isDone) {
            return false;
        }
        if (failed != null) {
            // The entries before the one that failed went with their chunk: no later call skips them.
            throw failed;
        }
        byte[] fetched;
        try {
            fetched = fetch(bytes);
        } catch (EskerException error) {
            failed = error;
            throw error;
        }
        if (fetched == null) {
            close();
            return false;
        }
        chunk = ByteBuffer.wrap(fetched);
        bytes = Math.min(bytes * 2, MOST_BYTES);
        return true;
    }

    @Override
    public Entry next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        byte[] key = new byte[chunk.getInt()];
        byte[] value = new byte[chunk.getInt()];
        chunk.get(key).get(value);
        return new Entry(key, value);
    }

    /** Returns the key that {@link #next()} will return. */
    public byte[] peekKey() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        byte[] key = new byte[chunk.getInt(chunk.position())];
        chunk.get(chunk.position() + 8, key);
        return key;
    }

    @Override
    public void close() {
        isDone = true;
        chunk = NOTHING;
    }

    /** Of a keyspace. */
    static final class OfKeyspace extends Scan {
        /** {@code null} if the first chunk has all entries. */
        private final Open open;

        private final boolean isBackward;

        OfKeyspace(byte[] first, boolean isBackward) {
            this(ByteBuffer.wrap(first), isBackward);
        }

        private OfKeyspace(ByteBuffer first, boolean isBackward) {
            super(first);
            long id = first.getLong();
            open = id == 0 ? null : new Open(id);
            this.isBackward = isBackward;
        }

        @Override
        byte[] fetch(int maxBytes) {
            return open == null ? null : open.call(id -> Calls.fetch(id, isBackward, maxBytes));
        }

        @Override
        public void close() {
            super.close();
            if (open != null) {
                open.close();
            }
        }

        private static final class Open extends Handle {
            Open(long id) {
                super("iterator", id, Native::freeScan);
            }
        }
    }

    /** Without entries. */
    static final class Empty extends Scan {
        @Override
        byte[] fetch(int maxBytes) {
            return null;
        }
    }
}
