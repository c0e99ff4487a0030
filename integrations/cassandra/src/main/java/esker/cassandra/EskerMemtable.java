package esker.cassandra;

import esker.ClosedException;
import esker.Entry;
import esker.EskerException;
import esker.Range;
import esker.Scan;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.commitlog.CommitLog;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.memtable.AbstractAllocatorMemtable;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.dht.AbstractBounds;
import org.apache.cassandra.dht.Bounds;
import org.apache.cassandra.dht.IncludingExcludingBounds;
import org.apache.cassandra.index.transactions.UpdateTransaction;
import org.apache.cassandra.io.sstable.SSTableReadsListener;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A memtable in Esker, which is also its log: a write is synced before it returns, and the commit
 * log has none of it. Cassandra flushes the memtable to its SSTables.
 *
 * <p>Each update is an entry of its own, and Cassandra's merge folds the updates of a partition
 * when they are read. A memtable has one generation of entries. The first one of a table after a
 * start also has those that the last run left, instead of a replay.
 */
public final class EskerMemtable extends AbstractAllocatorMemtable {
    private static final Logger LOGGER = LoggerFactory.getLogger(EskerMemtable.class);

    /** A read that finds so many updates of a partition replaces them by one. */
    private static final int FOLD_AT = 64;

    private final Store store;
    private final TableId table;
    private final long generation;
    private final byte[] prefix;

    /** The generations that the memtable has, its own being the last. */
    private final List<Long> generations;

    private final List<byte[]> prefixes = new ArrayList<>();
    private final AtomicLong sequence = new AtomicLong();
    private final AtomicLong bytes = new AtomicLong();
    private final Switches switches;
    private final Leftovers leftovers;
    private final TableMeters meters;
    private final Indexing indexing = new Indexing();

    /** Folds hold the read lock, a discard holds the write lock. */
    private final ReadWriteLock discards = new ReentrantReadWriteLock();

    /** The memtables of the table's indexes that are flushed with it. */
    private final Map<Memtable, ColumnFamilyStore> indexMemtables = new IdentityHashMap<>();

    /** Guarded by {@link #discards}. */
    private boolean isDiscarded;

    /**
     * Called by Cassandra. The options are those of the configuration in {@code cassandra.yaml}.
     */
    public static Memtable.Factory factory(Map<String, String> options) {
        return EskerFactory.of(options);
    }

    EskerMemtable(
            AtomicReference<CommitLogPosition> lowerBound,
            TableMetadataRef metadata,
            Owner owner,
            Store store,
            Leftovers leftovers) {
        super(lowerBound, metadata, owner);
        this.store = store;
        this.leftovers = leftovers;
        table = metadata.get().id;
        switches = Switches.of(table, store);
        meters = TableMeters.of(metadata.get());
        generations = new ArrayList<>();
        // The rows of an indexed table are written again by Leftovers, so that its indexes see
        // them.
        if (switches.isFirst() && metadata.get().indexes.isEmpty()) {
            generations.addAll(store.recover(table));
        }
        generations.forEach(left -> prefixes.add(Keys.prefix(table, left)));
        recover();
        generation = store.nextGeneration();
        prefix = Keys.prefix(table, generation);
        generations.add(generation);
        prefixes.add(prefix);
        switches.created(this);
    }

    /** Counts what an earlier run of the node left. */
    private void recover() {
        long rows = 0;
        long size = 0;
        for (byte[] left : prefixes) {
            try (Scan scan = store.rows().scan(Range.prefix(left))) {
                while (scan.hasNext()) {
                    Entry entry = scan.next();
                    PartitionUpdate update = store.readRecovered(metadata(), entry);
                    if (update != null) {
                        count(update, entry.value().length);
                        rows++;
                        size += entry.key().length + entry.value().length;
                    }
                }
            }
        }
        if (rows > 0) {
            Memory.chargeAtOnce(allocator, rows, size);
            meters.recovered(rows, size);
            LOGGER.info("{}: recovered {} updates, {} bytes, from Esker", metadata(), rows, size);
        }
    }

    private void count(PartitionUpdate update, int size) {
        updateMin(minTimestamp, update.stats().minTimestamp);
        updateMin(minLocalDeletionTime, update.stats().minLocalDeletionTime);
        columnsCollector.update(update.columns());
        statsCollector.update(update.stats());
        bytes.addAndGet(size);
        currentOperations.addAndGet(update.operationCount());
    }

    @Override
    public long put(PartitionUpdate update, UpdateTransaction indexer, OpOrder.Group group) {
        long start = System.nanoTime();
        byte[] value = Updates.write(update);
        byte[] key =
                Keys.of(prefix, Keys.partition(update.partitionKey()), sequence.incrementAndGet());
        long before = System.nanoTime();
        Memory.charge(allocator, key.length + value.length, group);
        meters.charged(System.nanoTime() - before);
        // Statistics come first: they must cover what a read finds.
        count(update, value.length);
        if (indexer == UpdateTransaction.NO_OP) {
            store(key, value);
        } else {
            PartitionUpdate old;
            Lock lock = indexing.lock(update.partitionKey());
            lock.lock();
            try {
                List<PartitionUpdate> updates = updates(update.partitionKey());
                old = updates.isEmpty() ? null : folded(updates);
                store(key, value);
            } finally {
                lock.unlock();
            }
            // An index may wait for memory here. The flush that frees it waits for all writes
            // before, which must not wait for this lock.
            Indexing.report(old, update, indexer);
        }
        meters.put(System.nanoTime() - start);
        return Long.MAX_VALUE;
    }

    private void store(byte[] key, byte[] value) {
        try {
            store.put(key, value);
        } catch (ClosedException error) {
            throw error;
        } catch (EskerException error) {
            String what = "writing to Esker's database " + store.dir() + " failed";
            CommitLog.handleCommitError(what, error);
            throw error;
        }
    }

    private static PartitionUpdate folded(List<PartitionUpdate> updates) {
        return updates.size() == 1 ? updates.get(0) : PartitionUpdate.merge(updates);
    }

    @Override
    public UnfilteredRowIterator rowIterator(
            DecoratedKey key,
            Slices slices,
            ColumnFilter columns,
            boolean reversed,
            SSTableReadsListener listener) {
        List<PartitionUpdate> updates = updates(key);
        if (updates.isEmpty()) {
            return null;
        }
        List<UnfilteredRowIterator> iterators = new ArrayList<>(updates.size());
        updates.forEach(
                update -> iterators.add(update.unfilteredIterator(columns, slices, reversed)));
        return merged(iterators);
    }

    @Override
    public UnfilteredRowIterator rowIterator(DecoratedKey key) {
        List<PartitionUpdate> updates = updates(key);
        if (updates.isEmpty()) {
            return null;
        }
        List<UnfilteredRowIterator> iterators = new ArrayList<>(updates.size());
        updates.forEach(update -> iterators.add(update.unfilteredIterator()));
        return merged(iterators);
    }

    private static UnfilteredRowIterator merged(List<UnfilteredRowIterator> iterators) {
        return iterators.size() == 1 ? iterators.get(0) : UnfilteredRowIterators.merge(iterators);
    }

    private List<PartitionUpdate> updates(DecoratedKey key) {
        byte[] partition = Keys.partition(key);
        TableMetadata schema = metadata();
        List<byte[]> keys = new ArrayList<>(1);
        List<PartitionUpdate> updates = new ArrayList<>(1);
        for (byte[] of : prefixes) {
            try (Scan scan = store.rows().scan(Range.prefix(Keys.join(of, partition)))) {
                while (scan.hasNext()) {
                    Entry entry = scan.next();
                    keys.add(entry.key());
                    updates.add(Updates.read(schema, entry.value()));
                }
            }
        }
        meters.read(updates.size());
        if (updates.size() < FOLD_AT) {
            return updates;
        }
        PartitionUpdate folded = folded(updates);
        replace(keys, Keys.of(prefix, partition, sequence.incrementAndGet()), folded);
        return List.of(folded);
    }

    /** Replaces entries by one that has the same rows, unless the rows are deleted. */
    private void replace(List<byte[]> keys, byte[] key, PartitionUpdate folded) {
        // Compactions read without the order that a discard waits for.
        Lock lock = discards.readLock();
        if (!lock.tryLock()) {
            return;
        }
        try {
            if (!isDiscarded) {
                store.replace(keys, key, Updates.write(folded));
                meters.folded();
            }
        } catch (EskerException error) {
            // Reads go on when the log has failed. A write reports it.
            LOGGER.debug("{}: a partition was not folded", metadata(), error);
        } finally {
            lock.unlock();
        }
    }

    /** Folds the updates of one partition. */
    PartitionUpdate partition(List<byte[]> values) {
        TableMetadata schema = metadata();
        List<PartitionUpdate> updates = new ArrayList<>(values.size());
        values.forEach(value -> updates.add(Updates.read(schema, value)));
        return folded(updates);
    }

    Partitions partitions(byte[] start, byte[] end) {
        return new Partitions(store.rows(), prefixes, start, end);
    }

    @Override
    public UnfilteredPartitionIterator partitionIterator(
            ColumnFilter columns, DataRange range, SSTableReadsListener listener) {
        AbstractBounds<PartitionPosition> bounds = range.keyRange();
        boolean isClosed = bounds instanceof Bounds;
        boolean withStart = isClosed || bounds instanceof IncludingExcludingBounds;
        boolean withEnd = isClosed || bounds instanceof org.apache.cassandra.dht.Range;
        byte[] start = bound(bounds.left, !withStart);
        byte[] end = bound(bounds.right, withEnd);
        return new RangeRead(this, partitions(start, end), columns, range);
    }

    /** Returns where the range of keys begins or ends, or {@code null} if it is open there. */
    private static byte[] bound(PartitionPosition position, boolean isAfter) {
        if (position == null || position.isMinimum()) {
            return null;
        }
        byte[] bytes = Keys.partition(position);
        return isAfter ? Keys.after(bytes) : bytes;
    }

    @Override
    public FlushablePartitionSet<PartitionUpdate> getFlushSet(
            PartitionPosition from, PartitionPosition to) {
        switches.flushing(this);
        byte[] start = bound(from, false);
        byte[] end = bound(to, false);
        long count = 0;
        long keyBytes = 0;
        try (Partitions all = partitions(start, end)) {
            while (all.hasNext()) {
                keyBytes += Updates.partitionKeyLength(all.next().get(0));
                count++;
            }
        }
        return new FlushSet(from, to, start, end, count, keyBytes);
    }

    @Override
    public long partitionCount() {
        // Counts a partition again for each of its updates: the exact number would take a scan.
        return sequence.get();
    }

    @Override
    public long getLiveDataSize() {
        return bytes.get();
    }

    @Override
    public boolean isClean() {
        return bytes.get() == 0;
    }

    @Override
    public boolean shouldSwitch(ColumnFamilyStore.FlushReason reason) {
        // A starting node asks for each table before it serves clients.
        if (reason == ColumnFamilyStore.FlushReason.SCHEMA_CHANGE) {
            leftovers.await();
        }
        return super.shouldSwitch(reason);
    }

    @Override
    public void switchOut(OpOrder.Barrier barrier, AtomicReference<CommitLogPosition> upperBound) {
        super.switchOut(barrier, upperBound);
        switches.switchedOut(this);
        if (isIndexed()) {
            // Cassandra switches them out after this one.
            owner().indexManager
                    .getAllIndexColumnFamilyStores()
                    .forEach(of -> indexMemtables.put(of.getCurrentMemtable(), of));
        }
        try {
            long time = switches.time();
            generations.forEach(of -> store.markOut(table, of, time));
        } catch (EskerException error) {
            // Flushes go on when the log has failed.
            LOGGER.debug("{}: the switch was not marked", metadata(), error);
        }
    }

    /** Whether the table has secondary indexes. */
    boolean isIndexed() {
        return !metadata().indexes.isEmpty();
    }

    /** Marks that the rows are not needed after a restart. */
    void markDone() {
        if (!isClean()) {
            generations.forEach(of -> store.markDone(table, of));
        }
    }

    @Override
    public void discard() {
        super.discard();
        discards.writeLock().lock();
        try {
            isDiscarded = true;
            if (areIndexesFlushed()) {
                generations.forEach(of -> store.delete(table, of));
            }
        } finally {
            discards.writeLock().unlock();
        }
        switches.discarded(this);
    }

    /** Whether no flush of an index failed. If one did, the next start needs the rows. */
    private boolean areIndexesFlushed() {
        for (Map.Entry<Memtable, ColumnFamilyStore> index : indexMemtables.entrySet()) {
            for (Memtable kept : index.getValue().getTracker().getView().getAllMemtables()) {
                if (kept == index.getKey()) {
                    LOGGER.error("{}: its index was not flushed, so its rows are kept", metadata());
                    return false;
                }
            }
        }
        return true;
    }

    ColumnFamilyStore owner() {
        return (ColumnFamilyStore) owner;
    }

    private final class FlushSet extends AbstractFlushablePartitionSet<PartitionUpdate> {
        private final PartitionPosition from;
        private final PartitionPosition to;
        private final byte[] start;
        private final byte[] end;
        private final long count;
        private final long keyBytes;

        FlushSet(
                PartitionPosition from,
                PartitionPosition to,
                byte[] start,
                byte[] end,
                long count,
                long keyBytes) {
            this.from = from;
            this.to = to;
            this.start = start;
            this.end = end;
            this.count = count;
            this.keyBytes = keyBytes;
        }

        @Override
        public Memtable memtable() {
            return EskerMemtable.this;
        }

        @Override
        public PartitionPosition from() {
            return from;
        }

        @Override
        public PartitionPosition to() {
            return to;
        }

        @Override
        public long partitionCount() {
            return count;
        }

        @Override
        public long partitionKeysSize() {
            return keyBytes;
        }

        @Override
        public java.util.Iterator<PartitionUpdate> iterator() {
            // A flush reads it to its end, which closes it. The collector closes the scans of an
            // aborted flush.
            Partitions all = partitions(start, end);
            return new java.util.Iterator<>() {
                @Override
                public boolean hasNext() {
                    return all.hasNext();
                }

                @Override
                public PartitionUpdate next() {
                    return partition(all.next());
                }
            };
        }
    }
}
