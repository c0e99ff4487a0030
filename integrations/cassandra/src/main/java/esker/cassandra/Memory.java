package esker.cassandra;

import org.apache.cassandra.db.memtable.AbstractAllocatorMemtable;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.apache.cassandra.utils.memory.MemtableAllocator;
import org.apache.cassandra.utils.memory.MemtablePool;

/**
 * How much memory Esker gets, and which of Cassandra's limits for memtables counts it.
 *
 * <p>The rows are outside of the heap. They count against {@code memtable_offheap_space} if
 * memtables of this node use it, else against {@code memtable_heap_space}.
 */
record Memory(long segmentBytes, long bytes) {
    private static final long MOST_SEGMENT = 1L << 30;
    private static final long LEAST_SEGMENT = 16L << 20;

    private static final int POOL_SEGMENTS = 8;

    /** Index entry of Esker and the header of its frame. */
    private static final long ROW_BYTES = 96;

    /**
     * One segment holds all rows that Cassandra keeps in memtables. Rows that it flushes are then
     * mostly deleted before Esker writes its segment to a table.
     */
    static Memory forMemtables() {
        MemtablePool pool = AbstractAllocatorMemtable.MEMORY_POOL;
        long limit = pool.offHeap.limit > 0 ? pool.offHeap.limit : pool.onHeap.limit;
        long segment = Math.min(MOST_SEGMENT, Math.max(LEAST_SEGMENT, limit));
        return new Memory(segment, 4 * segment);
    }

    /** The indexes of a pool that is half full, from where writers are slowed down, fit twice. */
    static Memory forPool(PoolFile pool) {
        Memory files = forMemtables();
        return new Memory(files.segmentBytes, Math.max(files.bytes, pool.bytesOrDefault() / 2));
    }

    /** How large a new pool is by default. Writers are slowed down when half of it is used. */
    static long poolBytes() {
        return POOL_SEGMENTS * forMemtables().segmentBytes;
    }

    private static MemtableAllocator.SubAllocator of(MemtableAllocator allocator) {
        return AbstractAllocatorMemtable.MEMORY_POOL.offHeap.limit > 0
                ? allocator.offHeap()
                : allocator.onHeap();
    }

    /** Counts a row. Waits for a flush if Cassandra's limit is reached. */
    static void charge(MemtableAllocator allocator, long bytes, OpOrder.Group group) {
        of(allocator).allocate(bytes + ROW_BYTES, group);
    }

    /** Counts rows that are there already, also beyond the limit. */
    static void chargeAtOnce(MemtableAllocator allocator, long rows, long bytes) {
        OpOrder order = new OpOrder();
        try (OpOrder.Group group = order.start()) {
            OpOrder.Barrier barrier = order.newBarrier();
            barrier.issue();
            barrier.markBlocking();
            of(allocator).allocate(bytes + rows * ROW_BYTES, group);
        }
    }
}
