package esker.kafka;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.streams.state.internals.Murmur3;

/**
 * A Bloom filter of the keys in a segment of time, so that a read of one key skips segments without it.
 *
 * <p>It has parts, each twice as large as the one before, because nobody knows how many keys will come.
 * A part is divided into blocks of a cache line, and a key sets bits of one block. When the memory for
 * filters is used up, the filter is given up: the segment may have every key then. Threads may share it.
 */
final class KeyFilter {
    private static final int FIRST_BYTES = 16 << 10;
    private static final int MOST_BYTES = 1 << 29;
    private static final int BITS_PER_KEY = 12;
    private static final int BITS_SET = 6;
    private static final int BLOCK_LONGS = 8;
    private static final int BLOCK_INDEX_BITS = 9;
    private static final long SCATTER = 0x9E3779B97F4A7C15L;

    private final FilterMemory memory;

    /** {@code null} if the filter was given up. The last part is the one that takes keys. */
    private List<long[]> parts = new ArrayList<>();

    private long free;

    KeyFilter(FilterMemory memory) {
        this.memory = memory;
    }

    /** Adds the key in the first {@code length} bytes of {@code bytes}. */
    synchronized void add(byte[] bytes, int length) {
        if (parts == null) {
            return;
        }
        long hash = Murmur3.hash64(bytes, 0, length, Murmur3.DEFAULT_SEED);
        if (has(hash) || (free == 0 && !grow())) {
            return;
        }
        free--;
        long[] part = parts.get(parts.size() - 1);
        int block = block(part, hash);
        long bits = hash * SCATTER;
        for (int bit = 0; bit < BITS_SET; bit++) {
            part[block + longOf(bits)] |= 1L << bits;
            bits >>>= BLOCK_INDEX_BITS;
        }
    }

    /** Whether the key may have been added; false if it was not. */
    synchronized boolean mayHave(byte[] key) {
        return parts == null || has(Murmur3.hash64(key, 0, key.length, Murmur3.DEFAULT_SEED));
    }

    private boolean has(long hash) {
        // The last part has most keys.
        for (int at = parts.size() - 1; at >= 0; at--) {
            if (has(parts.get(at), hash)) {
                return true;
            }
        }
        return false;
    }

    private static boolean has(long[] part, long hash) {
        int block = block(part, hash);
        long bits = hash * SCATTER;
        for (int bit = 0; bit < BITS_SET; bit++) {
            if ((part[block + longOf(bits)] & 1L << bits) == 0) {
                return false;
            }
            bits >>>= BLOCK_INDEX_BITS;
        }
        return true;
    }

    private static int block(long[] part, long hash) {
        long blocks = part.length / BLOCK_LONGS;
        return (int) ((hash >>> Integer.SIZE) * blocks >>> Integer.SIZE) * BLOCK_LONGS;
    }

    /** The long within a block; the six bits below decide the bit of it. */
    private static int longOf(long bits) {
        return (int) (bits >>> 6) & BLOCK_LONGS - 1;
    }

    private boolean grow() {
        int last = parts.isEmpty() ? 0 : parts.get(parts.size() - 1).length * Long.BYTES;
        int bytes = Math.max(2 * last, FIRST_BYTES);
        if (bytes > MOST_BYTES || !memory.take(bytes)) {
            giveUp();
            return false;
        }
        parts.add(new long[bytes / Long.BYTES]);
        free = 8L * bytes / BITS_PER_KEY;
        return true;
    }

    /** Frees its memory. From now on the segment may have every key. */
    synchronized void giveUp() {
        if (parts != null) {
            memory.give(parts.stream().mapToLong(part -> (long) part.length * Long.BYTES).sum());
            parts = null;
        }
    }
}
