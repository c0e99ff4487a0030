package esker.cassandra;

import java.util.function.LongPredicate;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.PurgeFunction;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.FBUtilities;

/**
 * Removes what a compaction of Cassandra would remove: expired cells, and tombstones that are older
 * than {@code gc_grace_seconds}. A tombstone stays if an SSTable or the commit log may have data
 * that it hides.
 */
final class Purge extends PurgeFunction {
    private final ColumnFamilyStore table;
    private final LongPredicate isPurgeable;

    private Purge(ColumnFamilyStore table, long now, LongPredicate isPurgeable) {
        super(
                now,
                table.gcBefore(now),
                Long.MIN_VALUE,
                table.getCompactionStrategyManager().onlyPurgeRepairedTombstones(),
                table.metadata().enforceStrictLiveness());
        this.table = table;
        this.isPurgeable = isPurgeable;
    }

    /** Returns a purge of {@code table} at present. No thread may write what it removes again. */
    static Purge of(ColumnFamilyStore table, EskerMemtable memtable) {
        View view = table.getTracker().getView();
        boolean isAlone = true;
        for (Memtable other : view.getAllMemtables()) {
            isAlone &= other == memtable;
        }
        boolean isAllowed =
                isAlone
                        && !table.getNeverPurgeTombstones()
                        && StorageService.instance.isDaemonSetupCompleted()
                        && !Transitions.isLogged();
        long oldest = isAllowed ? Long.MAX_VALUE : Long.MIN_VALUE;
        for (SSTableReader sstable : view.allKnownSSTables()) {
            oldest = Math.min(oldest, sstable.getMinTimestamp());
        }
        long bound = oldest;
        LongPredicate isPurgeable =
                bound == Long.MAX_VALUE ? time -> true : time -> time < bound;
        return new Purge(table, FBUtilities.nowInSeconds(), isPurgeable);
    }

    @Override
    protected LongPredicate getPurgeEvaluator() {
        return isPurgeable;
    }

    /** Returns what is left of a partition, or {@code null} if nothing is. */
    PartitionUpdate rest(PartitionUpdate partition) {
        try (UnfilteredRowIterator rest = applyToPartition(partition.unfilteredIterator())) {
            return rest == null
                    ? null
                    : PartitionUpdate.fromIterator(rest, ColumnFilter.all(table.metadata()));
        }
    }
}
