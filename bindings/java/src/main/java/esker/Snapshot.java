package esker;

/** A consistent view of all keyspaces at one point in time. Threads may share it. */
public final class Snapshot extends Handle {
    Snapshot(long id) {
        super("snapshot", id, Native::freeSnapshot);
    }

    /** Returns the value that {@code key} had, or {@code null}. */
    public byte[] get(Keyspace keyspace, byte[] key) {
        return call(id -> keyspace.call(of -> Calls.snapshotGet(id, of, key)));
    }

    /** Returns the entries of {@code range} that were there. */
    public Scan scan(Keyspace keyspace, Range range) {
        return call(id -> keyspace.scan(range, id));
    }
}
