package esker.cassandra;

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
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Rows of earlier runs that no memtable takes over. Of a table that was dropped, they are deleted.
 * Of a table that now has another memtable, or has indexes, they are written again as mutations.
 */
final class Leftovers implements Runnable {
    private static final Logger LOGGER = LoggerFactory.getLogger(Leftovers.class);
    private static final long POLL_MILLIS = 20;

    /** They share syncs. */
    private static final int WRITERS = 32;

    private static final int VALUES_AT_ONCE = 1024;

    private final Store store;
    private final CountDownLatch done = new CountDownLatch(1);

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

    /** Waits until the rows are where reads find them. */
    void await() {
        try {
            done.await();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", error);
        }
    }

    @Override
    public void run() {
        try {
            await(Keyspace::isInitialized);
            // A table that is created now comes after this list, and is in the schema.
            for (TableId table : store.tables()) {
                take(table);
            }
        } catch (RuntimeException error) {
            LOGGER.error(
                    "rows of tables that no longer use Esker stay in {}; start the node again",
                    store.dir(),
                    error);
        } finally {
            done.countDown();
        }
    }

    private static void await(BooleanSupplier condition) {
        while (!condition.getAsBoolean()) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(POLL_MILLIS));
        }
    }

    private static void write(TableMetadata table, byte[] value) {
        Mutation mutation = new Mutation(Updates.read(table, value));
        Keyspace.open(table.keyspace).apply(mutation, true);
    }

    private void take(TableId id) {
        TableMetadata table = Schema.instance.getTableMetadata(id);
        if (table == null) {
            LOGGER.info("deleting the rows of the dropped table {} from Esker", id);
            store.delete(id);
            return;
        }
        Object factory = table.params.memtable.factory();
        boolean isHere = factory instanceof EskerFactory && ((EskerFactory) factory).uses(store);
        if (isHere && table.indexes.isEmpty()) {
            return;
        }
        store.claim(SystemKeyspace.getLocalHostId());
        await(() -> Schema.instance.getColumnFamilyStoreInstance(id) != null);
        long rows = 0;
        List<Long> generations = store.recover(id);
        ForkJoinPool writers = new ForkJoinPool(WRITERS);
        try {
            for (long generation : generations) {
                byte[] prefix = Keys.prefix(id, generation);
                try (Scan scan = store.rows().scan(Range.prefix(prefix))) {
                    while (scan.hasNext()) {
                        List<byte[]> values = new ArrayList<>();
                        while (scan.hasNext() && values.size() < VALUES_AT_ONCE) {
                            values.add(scan.next().value());
                        }
                        writers.submit(
                                        () ->
                                                values.parallelStream()
                                                        .forEach(value -> write(table, value)))
                                .join();
                        rows += values.size();
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
