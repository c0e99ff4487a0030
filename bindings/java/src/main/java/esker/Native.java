package esker;

/** The functions of the native library. A handle is a number, so a stale one is an exception. */
final class Native {
    static {
        Library.load();
    }

    private Native() {}

    /** Loads the library, which any other call of this class does too. */
    static void load() {}

    static native long open(String dir, String[] settings, long resources, int mode);

    static native void close(long db);

    static native long keyspace(long db, String name, String[] settings, boolean create);

    static native long defaultKeyspace(long db);

    static native String[] keyspaces(long db);

    static native void dropKeyspace(long db, long keyspace);

    static native void write(long db, byte[] operations, int length, boolean sync);

    static native long snapshot(long db);

    static native void flush(long db);

    static native void sync(long db);

    static native void checkpoint(long db, String dir);

    static native String stats(long db);

    static native String prometheus(long db, String name);

    static native long usedBytes(long db);

    static native void createPool(String file, long bytes, boolean isEmulated);

    static native long resources(long memoryBytes, int backgroundThreads);

    static native long chargedBytes(long resources);

    static native void freeResources(long resources);

    static native byte[] get(long keyspace, byte[] key);

    static native boolean contains(long keyspace, byte[] key);

    static native void put(long keyspace, byte[] key, byte[] value);

    static native void putWithTtl(long keyspace, byte[] key, byte[] value, long millis);

    static native void merge(long keyspace, byte[] key, byte[] operand);

    static native void delete(long keyspace, byte[] key);

    static native void deleteRange(long keyspace, byte[] start, byte[] end);

    static native long approximateLen(long keyspace);

    static native void freeKeyspace(long keyspace);

    static native byte[] snapshotGet(long snapshot, long keyspace, byte[] key);

    static native void freeSnapshot(long snapshot);

    /** A handle, which is 0 if all entries follow, and the first chunk; {@code null} if it is empty. */
    static native byte[] scan(
            long keyspace,
            long snapshot,
            byte[] start,
            boolean startInclusive,
            byte[] end,
            boolean endInclusive,
            boolean backward,
            int maxBytes);

    static native byte[] fetch(long scan, boolean backward, int maxBytes);

    static native void freeScan(long scan);

    static native long begin(long db, int isolation, boolean optimistic, long lockMillis);

    static native byte[] transactionGet(
            long transaction, long keyspace, byte[] key, boolean forUpdate);

    static native void transactionPut(long transaction, long keyspace, byte[] key, byte[] value);

    static native void transactionDelete(long transaction, long keyspace, byte[] key);

    static native byte[] transactionFetch(
            long transaction,
            long keyspace,
            byte[] start,
            boolean startInclusive,
            byte[] end,
            boolean endInclusive,
            boolean backward,
            int maxBytes);

    static native void setSavepoint(long transaction);

    static native void rollbackToSavepoint(long transaction);

    static native void commit(long transaction);

    static native void rollback(long transaction);

    static native void freeTransaction(long transaction);
}
