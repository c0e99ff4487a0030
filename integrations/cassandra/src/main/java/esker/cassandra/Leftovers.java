package esker.cassandra;

import esker.Entry;
import esker.Range;
import esker.Scan;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.Mutation;
import org.apache.cassandra.db.SystemKeyspace;
import org.apache.cassandra.db.commitlog.CommitLog;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.StorageService;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Moves the rows of earlier runs that no memtable takes over. It deletes the rows of a table that
 * the schema lacks, but keeps those of primary storage unless the table was dropped. If a table now
 * has another memtable, or has indexes, it writes the rows again as mutations.
 */
final class Leftovers implements Runnable {
    private static final Logger LOGGER = LoggerFactory.getLogger(Leftovers.class);
    private static final long POLL_MILLIS = 20;

    /** They share syncs. */
    private static final int WRITERS = 32;

    private static final int ENTRIES_AT_ONCE = 1024;

    private final Store store;
    private final CountDownLatch done = new CountDownLatch(1);

    /** The first failure. Read it after {@link #done}. */
    private Throwable failure;

    private Leftovers(Store store) {
        this.store = store;
    }

    /** Begins once the node has opened its tables. */
    static Leftovers start(Store store) {
        Leftovers leftovers = new Leftovers(store);
        Thread thread = new Thread(leftovers, "EskerLeftovers");
        thread.setDaemon(true);
        thread.start();
        return leftovers;
    }

    /**
     * Waits until the rows are where reads find them.
     *
     * @throws IllegalStateException if a row could not be moved and the node still starts
     */
    void await() {
        try {
            done.await();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(
                    "moving rows of earlier runs failed: interrupted; start the node again", error);
        }
        // A node that serves has reported it, and an exception here would break a change of schema.
        if (failure != null && !StorageService.instance.isDaemonSetupCompleted()) {
            throw new IllegalStateException(
                    "moving rows of earlier runs in "
                            + store.dir()
                            + " failed: "
                            + failure.getMessage()
                            + "; mend the cause and start the node again",
                    failure);
        }
    }

    @Override
    public void run() {
        try {
            await(Keyspace::isInitialized);
            await(() -> SystemKeyspace.getLocalHostId() != null);
            store.claim(SystemKeyspace.getLocalHostId());
            // A table that is created now comes after this list, and is in the schema.
            for (TableId table : store.tables()) {
                try {
                    take(table);
                } catch (Throwable error) {
                    // The rows of other tables are independent of it.
                    failed(error);
                }
            }
        } catch (Throwable error) {
            failed(error);
        } finally {
            done.countDown();
        }
    }

    private void failed(Throwable error) {
        LOGGER.error("moving rows of earlier runs in {} failed", store.dir(), error);
        if (failure == null) {
            failure = error;
        } else if (failure != error) {
            failure.addSuppressed(error);
        }
    }

    private static void await(BooleanSupplier condition) {
        while (!condition.getAsBoolean()) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(POLL_MILLIS));
        }
    }

    private void write(TableMetadata table, Entry entry) {
        PartitionUpdate update = store.readRecovered(table, entry);
        if (update != null) {
            Keyspace.open(table.keyspace).apply(new Mutation(update), true);
        }
    }

    private void drop(TableId id) {
        if (store.isKept(id)) {
            LOGGER.warn(
                    "the schema has no table {}, whose rows are kept in {}: create the table again"
                            + " WITH id = {} AND memtable = the one that it had; or delete the rows"
                            + " with forget(\"{}\") of the bean {}",
                    id,
                    store.dir(),
                    id,
                    id,
                    KeptTables.NAME);
            return;
        }
        LOGGER.info("deleting the rows of the dropped table {} from Esker", id);
        store.delete(id);
    }

    private static boolean isDropped(TableId id) {
        return Schema.instance.getTableMetadata(id) == null;
    }

    private void take(TableId id) {
        TableMetadata table = Schema.instance.getTableMetadata(id);
        if (table == null) {
            drop(id);
            return;
        }
        Object factory = table.params.memtable.factory();
        boolean isHere = factory instanceof EskerFactory && ((EskerFactory) factory).uses(store);
        if (isHere && table.indexes.isEmpty()) {
            return;
        }
        await(() -> Schema.instance.getColumnFamilyStoreInstance(id) != null || isDropped(id));
        if (isDropped(id)) {
            drop(id);
            return;
        }
        long rows = 0;
        List<Long> generations = store.recover(id);
        // The table may have changed since it was opened. Its flush has the rows of a memtable, which
        // may still write to them.
        generations.removeIf(store::isTaken);
        ForkJoinPool writers = new ForkJoinPool(WRITERS);
        try {
            for (long generation : generations) {
                byte[] prefix = Keys.prefix(id, generation);
                try (Scan scan = store.rows().scan(Range.prefix(prefix))) {
                    while (scan.hasNext()) {
                        List<Entry> entries = new ArrayList<>();
                        while (scan.hasNext() && entries.size() < ENTRIES_AT_ONCE) {
                            entries.add(scan.next());
                        }
                        writers.submit(
                                        () ->
                                                entries.parallelStream()
                                                        .forEach(entry -> write(table, entry)))
                                .join();
                        rows += entries.size();
                    }
                }
            }
        } finally {
            writers.shutdown();
        }
        try {
            CommitLog.instance.sync(true);
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
        generations.forEach(generation -> store.delete(id, generation));
        LOGGER.info("{}: moved {} updates of earlier runs to its present memtable", table, rows);
    }
}
