package esker.cassandra;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.concurrent.ScheduledExecutors;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.SchemaChangeListener;
import org.apache.cassandra.schema.TableMetadata;

/**
 * Tables that change to Esker or from it.
 *
 * <p>Cassandra changes the schema first and the memtable after it, and a write goes by the schema
 * that it was prepared with. So it could skip the commit log and yet go to a memtable that is not
 * durable. Hence no write skips the commit log from before a change until some time after it.
 */
final class Transitions implements SchemaChangeListener {
    /** Longer than a write takes that was prepared with the schema before. */
    private static final long GRACE_SECONDS = 60;

    private static final AtomicInteger CURRENT = new AtomicInteger();
    private static final AtomicBoolean IS_REGISTERED = new AtomicBoolean();

    private Transitions() {}

    /** Begins to watch the schema. */
    static void watch() {
        if (!IS_REGISTERED.getAndSet(true)) {
            Schema.instance.registerListener(new Transitions());
        }
    }

    /** Whether a table is changing now. */
    static boolean isAny() {
        return CURRENT.get() > 0;
    }

    private static boolean isChange(TableMetadata before, TableMetadata after) {
        Memtable.Factory old = before.params.memtable.factory();
        Memtable.Factory present = after.params.memtable.factory();
        return !old.equals(present)
                && (old instanceof EskerFactory || present instanceof EskerFactory);
    }

    @Override
    public void onPreAlterTable(TableMetadata before, TableMetadata after) {
        if (isChange(before, after)) {
            CURRENT.incrementAndGet();
        }
    }

    @Override
    public void onAlterTable(TableMetadata before, TableMetadata after, boolean affectStatements) {
        if (isChange(before, after)) {
            schedule(after);
        }
    }

    @Override
    public void onDropTable(TableMetadata table, boolean withData) {
        Switches.forget(table.id);
        // Cassandra releases those of a table that was created with Esker, not of one that changed.
        TableMeters.release(table.id);
    }

    private static void schedule(TableMetadata table) {
        ScheduledExecutors.optionalTasks.schedule(
                () -> {
                    if (isDone(table)) {
                        CURRENT.decrementAndGet();
                    } else {
                        schedule(table);
                    }
                },
                GRACE_SECONDS,
                TimeUnit.SECONDS);
    }

    /** Whether the memtables from before the change are flushed, or the table is dropped. */
    private static boolean isDone(TableMetadata table) {
        ColumnFamilyStore store = Schema.instance.getColumnFamilyStoreInstance(table.id);
        if (store == null) {
            return true;
        }
        boolean isEsker = store.getCurrentMemtable() instanceof EskerMemtable;
        for (Memtable memtable : store.getTracker().getView().getAllMemtables()) {
            if (memtable instanceof EskerMemtable != isEsker) {
                return false;
            }
        }
        return true;
    }
}
