package esker;

/**
 * An ordered set of entries. Keys sort by their unsigned bytes. Threads may share it. It does not keep
 * its database open, and need not be closed.
 */
public final class Keyspace extends Handle {
    private final String name;

    Keyspace(String name, long id) {
        super(null, id, Native::freeKeyspace);
        this.name = name;
    }

    /** Returns its name. */
    public String name() {
        return name;
    }

    /** Returns the value of {@code key}, or {@code null}. */
    public byte[] get(byte[] key) {
        return call(id -> Calls.get(id, key));
    }

    /** Whether {@code key} exists. */
    public boolean contains(byte[] key) {
        return call(id -> Calls.contains(id, key));
    }

    /** Sets {@code key} to {@code value}. */
    public void put(byte[] key, byte[] value) {
        run(id -> Calls.put(id, key, value));
    }

    /** Sets {@code key} to {@code value} for so many milliseconds. */
    public void put(byte[] key, byte[] value, long ttlMillis) {
        if (ttlMillis < 0) {
            throw new IllegalArgumentException("negative time to live");
        }
        run(id -> Native.putWithTtl(id, key, value, ttlMillis));
    }

    /** Merges {@code operand} into {@code key}, with the merge operator of the keyspace. */
    public void merge(byte[] key, byte[] operand) {
        run(id -> Native.merge(id, key, operand));
    }

    /** Deletes {@code key}, whether it exists or not. */
    public void delete(byte[] key) {
        run(id -> Calls.delete(id, key));
    }

    /** Deletes the keys from {@code start} to before {@code end}; {@code null} is an open end. */
    public void deleteRange(byte[] start, byte[] end) {
        run(id -> Native.deleteRange(id, start, end));
    }

    /** Returns about how many entries there are. */
    public long approximateLength() {
        return call(Native::approximateLen);
    }

    /** Returns the entries of {@code range} at this point in time. Close it, or read it to its end. */
    public Scan scan(Range range) {
        return scan(range, 0);
    }

    Scan scan(Range range, long snapshot) {
        if (range.isEmpty()) {
            return new Scan.Empty();
        }
        byte[] first =
                call(
                        id ->
                                Calls.scan(
                                        id,
                                        snapshot,
                                        range.start,
                                        range.startInclusive,
                                        range.end,
                                        range.endInclusive,
                                        range.isBackward,
                                        Scan.FIRST_BYTES));
        return first == null ? new Scan.Empty() : new Scan.OfKeyspace(first, range.isBackward);
    }
}
