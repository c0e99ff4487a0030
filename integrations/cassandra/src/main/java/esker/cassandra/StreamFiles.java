package esker.cassandra;

import java.io.IOException;
import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.concurrent.ScheduledExecutors;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.io.sstable.Component;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.format.SSTableFormat;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.format.StatsComponent;
import org.apache.cassandra.io.sstable.metadata.MetadataType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The SSTables that Cassandra writes from a live memtable for a stream or a repair.
 *
 * <p>Cassandra 5.0 does not delete them, and its next start would read them as rows of the table:
 * rows that were deleted and purged since would come back. So the database records their names.
 * They are deleted when no stream and no repair uses them any more, or by the next start before it
 * reads SSTables. A mark in their statistics distinguishes them from SSTables of the table.
 */
final class StreamFiles {
    private static final Logger LOGGER = LoggerFactory.getLogger(StreamFiles.class);

    /** What such an SSTable says that it has of the commit log, which has no such segment. */
    static final CommitLogPosition MARK = new CommitLogPosition(Long.MIN_VALUE + 0x45, 0x45);

    private static final long POLL_SECONDS = 2;

    /** Longer than Cassandra takes from the end of a file to the first use of it. */
    private static final long GRACE_NANOS = TimeUnit.SECONDS.toNanos(10);

    /**
     * The files before those that this thread is about to write: Cassandra asks for the rows,
     * begins a file and takes the rows, all on one thread.
     */
    private static final ThreadLocal<Set<Descriptor>> BEFORE = new ThreadLocal<>();

    private static final Map<Descriptor, Use> FILES = new HashMap<>();

    private static final class Use {
        private final Store store;
        private final ColumnFamilyStore table;
        private boolean isWritten;
        private long time;

        Use(Store store, ColumnFamilyStore table) {
            this.store = store;
            this.table = table;
        }
    }

    private StreamFiles() {}

    /** The thread is about to write rows of {@code table}, perhaps. */
    static void expect(ColumnFamilyStore table) {
        BEFORE.set(list(table));
    }

    /** The thread begins, or ends, to write rows to its file. */
    static void found(Store store, ColumnFamilyStore table, boolean isWritten) {
        Set<Descriptor> before = BEFORE.get();
        if (before == null) {
            return;
        }
        Set<Descriptor> present = list(table);
        present.removeAll(before);
        for (SSTableReader known : table.getTracker().getView().allKnownSSTables()) {
            present.remove(known.descriptor);
        }
        synchronized (FILES) {
            for (Descriptor file : present) {
                Use use = FILES.get(file);
                if (use == null) {
                    store.markTemporary(table.metadata.id, name(file));
                    use = new Use(store, table);
                    FILES.put(file, use);
                    if (FILES.size() == 1) {
                        schedule();
                    }
                }
                use.isWritten = isWritten;
                use.time = System.nanoTime();
            }
        }
    }

    /** Returns the SSTables in the directories of {@code table} that belong to no transaction. */
    private static Set<Descriptor> list(ColumnFamilyStore table) {
        return new HashSet<>(
                table.getDirectories()
                        .sstableLister(Directories.OnTxnErr.IGNORE)
                        .skipTemporary(true)
                        .list()
                        .keySet());
    }

    private static String name(Descriptor file) {
        return file.baseFile().absolutePath();
    }

    private static void schedule() {
        ScheduledExecutors.optionalTasks.schedule(
                StreamFiles::deleteUnused, POLL_SECONDS, TimeUnit.SECONDS);
    }

    private static void deleteUnused() {
        synchronized (FILES) {
            long now = System.nanoTime();
            Iterator<Map.Entry<Descriptor, Use>> files = FILES.entrySet().iterator();
            while (files.hasNext()) {
                Map.Entry<Descriptor, Use> file = files.next();
                try {
                    if (isGone(file.getKey(), file.getValue(), now)) {
                        files.remove();
                    }
                } catch (RuntimeException | AssertionError error) {
                    // The next poll tries again.
                    LOGGER.warn("deleting {} failed", file.getKey(), error);
                }
            }
            if (!FILES.isEmpty()) {
                schedule();
            }
        }
    }

    /**
     * Deletes a file that is used no more. Returns whether it is gone, or belongs to the table now.
     */
    private static boolean isGone(Descriptor file, Use use, long now) {
        if (file.discoverComponents().isEmpty() || isLive(use.table, file)) {
            use.store.forgetTemporary(use.table.metadata.id, name(file));
            return true;
        }
        if (use.isWritten
                && now - use.time > GRACE_NANOS
                && isComplete(file)
                && isMarked(file)
                && !isOpen(file)) {
            delete(file);
        }
        return false;
    }

    /** Whether the file became one of the table meanwhile, by an import. */
    private static boolean isLive(ColumnFamilyStore table, Descriptor file) {
        for (SSTableReader live : table.getTracker().getView().allKnownSSTables()) {
            if (live.descriptor.equals(file)) {
                return true;
            }
        }
        return false;
    }

    /** Whether Cassandra has a reader of it. Also true if that is unknown. */
    private static boolean isOpen(Descriptor file) {
        try {
            Class<?> readers = Class.forName(SSTableReader.class.getName() + "$GlobalTidy");
            Field field = readers.getDeclaredField("lookup");
            field.setAccessible(true);
            return ((Map<?, ?>) field.get(null)).containsKey(file);
        } catch (ReflectiveOperationException | RuntimeException error) {
            LOGGER.debug("whether {} is open is unknown", file, error);
            return true;
        }
    }

    private static boolean isComplete(Descriptor file) {
        return file.fileFor(SSTableFormat.Components.TOC).exists();
    }

    private static boolean isMarked(Descriptor file) {
        try {
            return StatsComponent.load(file, MetadataType.STATS)
                    .statsMetadata()
                    .commitLogIntervals
                    .contains(MARK);
        } catch (IOException | RuntimeException error) {
            LOGGER.debug("the statistics of {} cannot be read", file, error);
            return false;
        }
    }

    /** Deletes the files that an earlier run left. Call it before Cassandra reads SSTables. */
    static void deleteLeft(Store store, ColumnFamilyStore table) {
        for (String name : store.temporaries(table.metadata.id)) {
            for (Descriptor file : list(table)) {
                if (name(file).equals(name) && (!isComplete(file) || isMarked(file))) {
                    delete(file);
                }
            }
            store.forgetTemporary(table.metadata.id, name);
        }
    }

    private static void delete(Descriptor file) {
        for (Component component : file.discoverComponents()) {
            file.fileFor(component).tryDelete();
        }
        LOGGER.info("deleted {}, which a stream or a repair has used", file);
    }
}
