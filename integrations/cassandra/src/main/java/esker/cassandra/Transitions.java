package esker.cassandra;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.concurrent.ScheduledExecutors;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.SystemKeyspace;
import org.apache.cassandra.db.commitlog.CommitLog;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.SchemaChangeListener;
import org.apache.cassandra.schema.TableId;
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
    private static final int GRACE_SECONDS = Integer.getInteger("esker.transition_seconds", 60);

    private static final AtomicInteger CURRENT = new AtomicInteger();
    private static final AtomicBoolean IS_REGISTERED = new AtomicBoolean();

    /** Whether the commit log may have rows of tables on Esker. Guarded by the class. */
    private static boolean isLogged;

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

    /**
     * Whether the commit log may have rows of tables on Esker. A start after a crash would write
     * them again, so a purge must not remove what hides them.
     */
    static synchronized boolean isLogged() {
        return isLogged;
    }

    private static synchronized void begin() {
        CURRENT.incrementAndGet();
        isLogged = true;
    }

    private static void end() {
        if (CURRENT.decrementAndGet() == 0) {
            ScheduledExecutors.optionalTasks.schedule(
                    Transitions::cleanLog, GRACE_SECONDS, TimeUnit.SECONDS);
        }
    }

    /** Called when no write goes to the commit log any more. */
    private static synchronized void cleanLog() {
        if (CURRENT.get() > 0) {
            return;
        }
        CommitLogPosition present = CommitLog.instance.getCurrentPosition();
        for (ColumnFamilyStore table : ColumnFamilyStore.all()) {
            if (table.getCurrentMemtable() instanceof EskerMemtable) {
                skipReplay(table, present);
            }
        }
        isLogged = false;
    }

    /**
     * Makes a start skip the commit log of {@code table} up to {@code present}: Esker has, or its
     * SSTables have, all of its rows. A later tombstone is not in the log, and compactions can purge
     * it together with each SSTable that says what to skip. The record of a truncation says it, too.
     */
    private static void skipReplay(ColumnFamilyStore table, CommitLogPosition present) {
        TableId id = table.metadata.id;
        // No truncation may come in between.
        synchronized (SystemKeyspace.class) {
            CommitLogPosition truncated = SystemKeyspace.getTruncatedPosition(id);
            boolean isLater = truncated == null || truncated.compareTo(present) < 0;
            SystemKeyspace.saveTruncationRecord(
                    table, SystemKeyspace.getTruncatedAt(id), isLater ? present : truncated);
        }
        CommitLog.instance.discardCompletedSegments(id, CommitLogPosition.NONE, present);
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
            begin();
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
        Switches.forget(table.id, withData);
        // Cassandra releases those of a table that was created with Esker, not of one that changed.
        TableMeters.release(table.id);
    }

    private static void schedule(TableMetadata table) {
        ScheduledExecutors.optionalTasks.schedule(
                () -> {
                    if (isDone(table)) {
                        end();
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
