package esker.cassandra;

import esker.EskerException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.SystemKeyspace;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.notifications.INotification;
import org.apache.cassandra.notifications.INotificationConsumer;
import org.apache.cassandra.notifications.MemtableDiscardedNotification;
import org.apache.cassandra.notifications.TruncationNotification;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.service.StorageService;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The memtables of one table that were switched out.
 *
 * <p>Cassandra discards a memtable some time after its flush. A truncation that is acknowledged in
 * between must not be undone by a crash. So a mark in Esker says that a generation is done:
 *
 * <ul>
 *   <li>after a flush, as soon as its SSTables are live. That is before a truncation can remove
 *       them
 *   <li>after a truncation without flush, or of a table with secondary indexes, by waiting for the
 *       discard before the truncation is recorded
 * </ul>
 */
final class Switches implements INotificationConsumer {
    private static final Logger LOGGER = LoggerFactory.getLogger(Switches.class);

    private static final Map<TableId, Switches> TABLES = new HashMap<>();
    private static final long WAIT_SECONDS = 30;

    private final Store store;
    private final Set<EskerMemtable> unflushed = new HashSet<>();
    private Tracker tracker;
    private boolean isFirst = true;

    /** The last truncation that is known. */
    private volatile long truncatedAt;

    private Switches(Store store, long truncatedAt) {
        this.store = store;
        this.truncatedAt = truncatedAt;
    }

    static Switches of(TableId table, Store store) {
        synchronized (TABLES) {
            Switches known = TABLES.get(table);
            if (known == null || known.store != store) {
                // Cassandra locks its truncations while it writes to memtables. A running node
                // must not wait for that here, as the write may wait for a switch.
                boolean isStarting = !StorageService.instance.isDaemonSetupCompleted();
                long last = isStarting ? SystemKeyspace.getTruncatedAt(table) : Long.MIN_VALUE;
                known = new Switches(store, last);
                TABLES.put(table, known);
            }
            return known;
        }
    }

    /**
     * Forgets a table that the node has no more. Its memtables still use their object until they are
     * discarded.
     *
     * @param isDropped whether its rows are not wanted either
     */
    static void forget(TableId table, boolean isDropped) {
        Switches known;
        synchronized (TABLES) {
            known = TABLES.remove(table);
        }
        if (known != null && isDropped) {
            known.dropped(table);
        }
    }

    private void dropped(TableId table) {
        try {
            store.forgetKept(table);
        } catch (EskerException error) {
            // A listener must not fail. The next start keeps the rows, and says so.
            LOGGER.warn("the drop of table {} was not noted in {}", table, store.dir(), error);
        }
    }

    /** Whether no memtable of the table was created yet. */
    synchronized boolean isFirst() {
        return isFirst;
    }

    synchronized void created(EskerMemtable memtable) {
        isFirst = false;
    }

    synchronized void switchedOut(EskerMemtable memtable) {
        unflushed.add(memtable);
        Tracker current = memtable.owner().getTracker();
        if (tracker != current) {
            tracker = current;
            tracker.subscribe(this);
        }
    }

    /** Returns the time of a switch. It follows the last truncation if the clock was set back. */
    long time() {
        return Math.max(System.currentTimeMillis(), truncatedAt + 1);
    }

    synchronized void flushing(EskerMemtable memtable) {
        if (!memtable.isIndexed()) {
            unflushed.remove(memtable);
            notifyAll();
        }
    }

    synchronized void discarded(EskerMemtable memtable) {
        unflushed.remove(memtable);
        notifyAll();
    }

    @Override
    public void handleNotification(INotification notification, Object sender) {
        if (notification instanceof MemtableDiscardedNotification) {
            Object memtable = ((MemtableDiscardedNotification) notification).memtable;
            // The indexes of a table are flushed after it. A crash in between needs the rows again.
            if (memtable instanceof EskerMemtable && !((EskerMemtable) memtable).isIndexed()) {
                ((EskerMemtable) memtable).markDone();
            }
        } else if (notification instanceof TruncationNotification) {
            truncatedAt = ((TruncationNotification) notification).truncatedAt;
            awaitDiscards();
        }
    }

    /**
     * Waits until every memtable that was switched out before is discarded, or is flushing and will
     * be marked.
     */
    private synchronized void awaitDiscards() {
        Set<EskerMemtable> before = new HashSet<>(unflushed);
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
        try {
            while (before.removeIf(memtable -> !unflushed.contains(memtable))
                    || !before.isEmpty()) {
                if (before.isEmpty()) {
                    return;
                }
                long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
                if (left <= 0) {
                    throw new IllegalStateException(
                            "truncating failed: a memtable was not discarded in time;"
                                    + " truncate again");
                }
                wait(left);
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(
                    "truncating failed: interrupted; truncate again", error);
        }
    }
}
