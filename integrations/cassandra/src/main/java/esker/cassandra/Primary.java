package esker.cassandra;

import java.util.List;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.RegularAndStaticColumns;
import org.apache.cassandra.db.SerializationHeader;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.commitlog.IntervalSet;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleNewTracker;
import org.apache.cassandra.db.memtable.Flushing;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.memtable.ShardBoundaries;
import org.apache.cassandra.db.rows.EncodingStats;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTable;
import org.apache.cassandra.io.sstable.SSTableMultiWriter;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.ActiveRepairService;
import org.apache.cassandra.utils.Throwables;
import org.apache.cassandra.utils.concurrent.Future;
import org.apache.cassandra.utils.concurrent.ImmediateFuture;

/** What is different if Esker keeps the rows of a table, and its SSTables stay empty. */
final class Primary {
    private Primary() {}

    /**
     * Whether Esker can keep the rows of {@code table}. Cassandra builds secondary indexes and
     * views from SSTables alone, and cleans their tables up with its own means.
     */
    static boolean isPossible(TableMetadata table) {
        if (!table.indexes.isEmpty() || table.isView()) {
            return false;
        }
        KeyspaceMetadata keyspace = Schema.instance.getKeyspaceMetadata(table.keyspace);
        return keyspace == null
                || keyspace.views.stream().noneMatch(of -> of.baseTableId.equals(table.id));
    }

    /** Whether a primary memtable is switched out, which writes its rows to SSTables. */
    static boolean isSwitchedOut(ColumnFamilyStore.FlushReason reason, TableMetadata table) {
        switch (reason) {
            case TRUNCATE:
                // Cassandra takes its snapshot from the SSTables, then deletes them.
            case DROP:
            case INDEX_BUILD_STARTED:
            case VIEW_BUILD_STARTED:
                return true;
            default:
                return !isWanted(table);
        }
    }

    /** Whether the present schema wants that Esker keeps the rows. */
    static boolean isWanted(TableMetadata table) {
        Memtable.Factory factory = table.params.memtable.factory();
        return factory instanceof EskerFactory && ((EskerFactory) factory).isPrimary(table);
    }

    /**
     * Writes all rows of a memtable to an SSTable in the directory of a snapshot. Cassandra adds
     * the schema and the manifest.
     */
    static void writeSnapshot(
            ColumnFamilyStore table, Memtable.FlushablePartitionSet<?> rows, String name) {
        if (rows.partitionCount() == 0) {
            return;
        }
        File directory =
                Directories.getSnapshotDirectory(
                        table.getDirectories().getDirectoryForNewSSTables(), name);
        Descriptor descriptor = table.newSSTableDescriptor(directory);
        SSTableMultiWriter writer =
                table.createSSTableMultiWriter(
                        descriptor,
                        rows.partitionCount(),
                        ActiveRepairService.UNREPAIRED_SSTABLE,
                        ActiveRepairService.NO_PENDING_REPAIR,
                        false,
                        IntervalSet.empty(),
                        new SerializationHeader(
                                true, rows.metadata(), rows.columns(), rows.encodingStats()),
                        UNTRACKED);
        try {
            new Flushing.FlushRunnable(rows, writer, table.metric, false).call();
            writer.finish(false);
        } catch (RuntimeException | Error error) {
            throw Throwables.unchecked(writer.abort(error));
        }
    }

    /** A snapshot is no part of the live set of SSTables. */
    private static final LifecycleNewTracker UNTRACKED =
            new LifecycleNewTracker() {
                @Override
                public void trackNew(SSTable table) {}

                @Override
                public void untrackNew(SSTable table) {}

                @Override
                public OperationType opType() {
                    return OperationType.FLUSH;
                }
            };

    /** Returns columns that cover every row. A writer may add rows of any of them at any time. */
    static RegularAndStaticColumns columns(TableMetadata table) {
        return table.regularAndStaticColumns();
    }

    /** Returns statistics that fit every row: it is encoded relative to them, at any distance. */
    static EncodingStats stats() {
        return EncodingStats.NO_STATS;
    }

    /** The owner of a primary memtable: a period or the limit of memory does not flush it. */
    record Owner(Memtable.Owner owner) implements Memtable.Owner {
        @Override
        public Future<CommitLogPosition> signalFlushRequired(
                Memtable memtable, ColumnFamilyStore.FlushReason reason) {
            return ImmediateFuture.success(CommitLogPosition.NONE);
        }

        @Override
        public Memtable getCurrentMemtable() {
            return owner.getCurrentMemtable();
        }

        @Override
        public Iterable<Memtable> getIndexMemtables() {
            return List.of();
        }

        @Override
        public ShardBoundaries localRangeSplits(int count) {
            return owner.localRangeSplits(count);
        }

        @Override
        public String toString() {
            return owner.toString();
        }
    }
}
