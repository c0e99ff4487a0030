package esker.cassandra;

import com.google.common.util.concurrent.RateLimiter;
import esker.ClosedException;
import esker.Entry;
import esker.EskerException;
import esker.Range;
import esker.Scan;
import java.util.ArrayList;
import java.util.Arrays;
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
    private final byte[] prefix;

    /**
     * The generations that the memtable has. It writes to the last one, which is new unless the
     * memtable is primary.
     */
    private final List<Long> generations;

    private final List<byte[]> prefixes = new ArrayList<>();
    private final AtomicLong sequence = new AtomicLong();
    private final AtomicLong updates = new AtomicLong();
    private final AtomicLong bytes = new AtomicLong();

    /** Whether Esker keeps the rows: Cassandra does not flush them. */
    private final boolean isPrimary;

    private volatile boolean isSwitchedOut;
    private final Switches switches;
    private final Leftovers leftovers;
    private final TableMeters meters;
    private final Indexing indexing = new Indexing();

    /** A fold may not write what a purge removes meanwhile. */
    private final Indexing folding = new Indexing();

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
            Leftovers leftovers,
            boolean isPrimary) {
        super(lowerBound, metadata, isPrimary ? new Primary.Owner(owner) : owner);
        this.isPrimary = isPrimary;
        this.store = store;
        this.leftovers = leftovers;
        table = metadata.get().id;
        switches = Switches.of(table, store);
        meters = TableMeters.of(metadata.get());
        generations = new ArrayList<>();
        if (switches.isFirst()) {
            StreamFiles.deleteLeft(store, owner());
        }
        // The rows of an indexed table are written again by Leftovers, so that its indexes see
        // them.
        if (switches.isFirst() && metadata.get().indexes.isEmpty()) {
            generations.addAll(store.recover(table));
            store.take(generations);
        }
        generations.forEach(left -> prefixes.add(Keys.prefix(table, left)));
        if (isPrimary) {
            store.markKept(table);
            keep();
        } else {
            recover();
        }
        if (generations.isEmpty() || !isPrimary) {
            long generation = store.nextGeneration();
            generations.add(generation);
            prefixes.add(Keys.prefix(table, generation));
        }
        prefix = prefixes.get(prefixes.size() - 1);
        sequence.set(store.firstSequence());
        switches.created(this);
    }

    /** Takes rows over without reading them. What is not known of them is assumed. */
    private void keep() {
        if (!generations.isEmpty()) {
            bytes.set(1);
            updateMin(minTimestamp, Long.MIN_VALUE + 1);
            updateMin(minLocalDeletionTime, 0);
        }
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
        updates.incrementAndGet();
    }

    @Override
    public long put(PartitionUpdate update, UpdateTransaction indexer, OpOrder.Group group) {
        long start = System.nanoTime();
        byte[] value = Updates.write(update);
        byte[] key =
                Keys.of(prefix, Keys.partition(update.partitionKey()), sequence.incrementAndGet());
        if (!isPrimary) {
            long before = System.nanoTime();
            Memory.charge(allocator, key.length + value.length, group);
            meters.charged(System.nanoTime() - before);
        }
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
        List<Stored> stored = read(key);
        meters.read(stored.size());
        if (stored.size() >= FOLD_AT) {
            List<Stored> folded = fold(key, null);
            stored = folded == null ? stored : folded;
        }
        List<PartitionUpdate> updates = new ArrayList<>(stored.size());
        stored.forEach(of -> updates.add(of.update));
        return updates;
    }

    /** An update as the database has it. */
    private record Stored(byte[] key, int size, PartitionUpdate update) {}

    private List<Stored> read(DecoratedKey key) {
        byte[] partition = Keys.partition(key);
        TableMetadata schema = metadata();
        List<Stored> stored = new ArrayList<>(1);
        for (byte[] of : prefixes) {
            try (Scan scan = store.rows().scan(Range.prefix(Keys.join(of, partition)))) {
                while (scan.hasNext()) {
                    Entry entry = scan.next();
                    PartitionUpdate update = Updates.read(schema, entry.value());
                    stored.add(new Stored(entry.key(), entry.value().length, update));
                }
            }
        }
        return stored;
    }

    /**
     * Replaces updates of a partition by one, unless another thread does so. Returns what it then
     * has, or {@code null} if nothing was replaced.
     *
     * @param purge what removes rows from it, or {@code null}
     */
    private List<Stored> fold(DecoratedKey key, Purge purge) {
        Lock lock = folding.lock(key);
        if (!lock.tryLock()) {
            return null;
        }
        try {
            // A purge may have removed what was read before.
            List<Stored> stored = read(key);
            int most = purge == null ? largestToFold(stored) : Integer.MAX_VALUE;
            List<Stored> kept = new ArrayList<>();
            List<byte[]> keys = new ArrayList<>();
            List<PartitionUpdate> updates = new ArrayList<>();
            for (Stored of : stored) {
                if (of.size > most) {
                    kept.add(of);
                } else {
                    keys.add(of.key);
                    updates.add(of.update);
                }
            }
            if (updates.isEmpty()) {
                return null;
            }
            PartitionUpdate folded = folded(updates);
            if (purge != null) {
                folded = purge.rest(folded);
            }
            byte[] newest = Keys.of(prefix, Keys.partition(key), sequence.incrementAndGet());
            replace(keys, newest, folded);
            if (folded != null) {
                kept.add(new Stored(newest, 0, folded));
            }
            return kept;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Returns the size of the largest update to fold. One that is larger than all smaller ones
     * together waits, so that a large partition is not rewritten for a few small updates.
     */
    private static int largestToFold(List<Stored> stored) {
        int[] sizes = stored.stream().mapToInt(Stored::size).sorted().toArray();
        long sum = 0;
        for (int i = 0; i < sizes.length; i++) {
            if (i >= FOLD_AT / 2 && sizes[i] > sum) {
                return sizes[i - 1];
            }
            sum += sizes[i];
        }
        return Integer.MAX_VALUE;
    }

    /** Replaces entries by one, or by none, unless the rows are deleted. */
    private void replace(List<byte[]> keys, byte[] key, PartitionUpdate folded) {
        // Compactions read without the order that a discard waits for.
        Lock lock = discards.readLock();
        if (!lock.tryLock()) {
            return;
        }
        try {
            if (!isDiscarded) {
                store.replace(keys, key, folded == null ? null : Updates.write(folded));
                meters.folded();
            }
        } catch (EskerException error) {
            // Reads go on when the log has failed. A write reports it.
            LOGGER.debug("{}: a partition was not folded", metadata(), error);
        } finally {
            lock.unlock();
        }
    }

    boolean isPrimary() {
        return isPrimary;
    }

    /** Folds and purges all partitions. Returns how many changed. */
    long purge(RateLimiter rate) {
        long changed = 0;
        long entries = 0;
        long size = 0;
        long entriesBefore = updates.get();
        long sizeBefore = bytes.get();
        try (Partitions all = partitions(null, null)) {
            while (all.hasNext() && !isSwitchedOut) {
                List<byte[]> values = all.next();
                int read = values.stream().mapToInt(value -> value.length).sum();
                rate.acquire(Math.max(1, read));
                PartitionUpdate folded = partition(values);
                PartitionUpdate rest = Purge.of(owner(), this).rest(folded);
                byte[] value = rest == null ? new byte[0] : Updates.write(rest);
                if (values.size() > 1 || !Arrays.equals(value, values.get(0))) {
                    fold(folded.partitionKey(), Purge.of(owner(), this));
                    changed++;
                }
                entries += rest == null ? 0 : 1;
                size += value.length;
            }
        }
        // Writes since then are counted as well. A memtable that had rows never counts as clean.
        updates.addAndGet(entries - entriesBefore);
        long had = sizeBefore;
        long found = size;
        bytes.updateAndGet(now -> now == 0 ? 0 : Math.max(1, now - had + found));
        return changed;
    }

    /** Deletes the rows of a range. */
    void delete(org.apache.cassandra.dht.Range<PartitionPosition> range) {
        Lock lock = discards.readLock();
        lock.lock();
        try {
            if (!isDiscarded) {
                byte[] start = bound(range.left, false);
                byte[] end = bound(range.right, false);
                prefixes.forEach(of -> store.delete(of, start, end));
            }
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
    static byte[] bound(PartitionPosition position, boolean isAfter) {
        if (position == null || position.isMinimum()) {
            return null;
        }
        byte[] bytes = Keys.partition(position);
        return isAfter ? Keys.after(bytes) : bytes;
    }

    @Override
    public FlushablePartitionSet<PartitionUpdate> getFlushSet(
            PartitionPosition from, PartitionPosition to) {
        if (!isSwitchedOut) {
            StreamFiles.expect(owner());
            return FlushSet.ofLive(this, from, to);
        }
        switches.flushing(this);
        return isPrimary
                ? new FlushSet(this, from, to, Primary.columns(metadata()), Primary.stats())
                : new FlushSet(this, from, to, columnsCollector.get(), statsCollector.get());
    }

    @Override
    public long partitionCount() {
        // Counts a partition again for each of its updates: the exact number would take a scan.
        return updates.get();
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
        if (isPrimary) {
            return Primary.isSwitchedOut(reason, metadata())
                    || !initialFactory.equals(metadata().params.memtable.factory());
        }
        return super.shouldSwitch(reason);
    }

    /** Cassandra begins, or ends, to write an SSTable of the rows for a stream or a repair. */
    void streaming(boolean isWritten) {
        StreamFiles.found(store, owner(), isWritten);
    }

    @Override
    public void performSnapshot(String name) {
        Primary.writeSnapshot(owner(), FlushSet.ofLive(this, null, null), name);
    }

    @Override
    public void switchOut(OpOrder.Barrier barrier, AtomicReference<CommitLogPosition> upperBound) {
        super.switchOut(barrier, upperBound);
        isSwitchedOut = true;
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
        Owner of = isPrimary ? ((Primary.Owner) owner).owner() : owner;
        return (ColumnFamilyStore) of;
    }
}
