package esker;

/**
 * The calls that programs make most often. On Java 22 and later, the class of the same name in
 * {@code src/main/java22} takes the place of this one.
 */
final class Calls {
    private Calls() {}

    /** Returns the interface that the calls use. */
    static String kind() {
        return "JNI";
    }

    static byte[] get(long keyspace, byte[] key) {
        return Native.get(keyspace, key);
    }

    static boolean contains(long keyspace, byte[] key) {
        return Native.contains(keyspace, key);
    }

    static void put(long keyspace, byte[] key, byte[] value) {
        Native.put(keyspace, key, value);
    }

    static void delete(long keyspace, byte[] key) {
        Native.delete(keyspace, key);
    }

    static void write(long db, byte[] operations, int length, boolean sync) {
        Native.write(db, operations, length, sync);
    }

    static byte[] snapshotGet(long snapshot, long keyspace, byte[] key) {
        return Native.snapshotGet(snapshot, keyspace, key);
    }

    static byte[] scan(
            long keyspace,
            long snapshot,
            byte[] start,
            boolean startInclusive,
            byte[] end,
            boolean endInclusive,
            boolean backward,
            int maxBytes) {
        return Native.scan(
                keyspace, snapshot, start, startInclusive, end, endInclusive, backward, maxBytes);
    }

    static byte[] fetch(long scan, boolean backward, int maxBytes) {
        return Native.fetch(scan, backward, maxBytes);
    }
}
