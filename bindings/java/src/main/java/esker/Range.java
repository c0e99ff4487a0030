package esker;

import java.util.Arrays;

/** A range of keys, which an iterator walks forwards or {@link #backward()}. */
public final class Range {
    final byte[] start;
    final boolean startInclusive;
    final byte[] end;
    final boolean endInclusive;
    final boolean isBackward;

    private Range(
            byte[] start,
            boolean startInclusive,
            byte[] end,
            boolean endInclusive,
            boolean isBackward) {
        this.start = start;
        this.startInclusive = startInclusive;
        this.end = end;
        this.endInclusive = endInclusive;
        this.isBackward = isBackward;
    }

    /** Returns the range of all keys. */
    public static Range all() {
        return of(null, null);
    }

    /** Returns the keys from {@code start} to before {@code end}; {@code null} is an open end. */
    public static Range of(byte[] start, byte[] end) {
        return new Range(start, true, end, false, false);
    }

    /** Returns the keys from {@code start} to {@code end}, both included; {@code null} is an open end. */
    public static Range closed(byte[] start, byte[] end) {
        return new Range(start, true, end, true, false);
    }

    /** Returns the keys that begin with {@code prefix}. */
    public static Range prefix(byte[] prefix) {
        int length = prefix.length;
        while (length > 0 && prefix[length - 1] == (byte) 0xFF) {
            length--;
        }
        if (length == 0) {
            return of(prefix, null);
        }
        byte[] end = Arrays.copyOf(prefix, length);
        end[length - 1]++;
        return of(prefix, end);
    }

    /** Returns the same keys, from the last to the first. */
    public Range backward() {
        return new Range(start, startInclusive, end, endInclusive, true);
    }

    /** What is left after the entry with {@code key}. */
    Range after(byte[] key) {
        return isBackward
                ? new Range(start, startInclusive, key, false, true)
                : new Range(key, false, end, endInclusive, false);
    }

    /** Whether no key can be in the range. */
    boolean isEmpty() {
        if (start == null || end == null) {
            return false;
        }
        int order = Arrays.compareUnsigned(start, end);
        return order > 0 || (order == 0 && !(startInclusive && endInclusive));
    }
}
