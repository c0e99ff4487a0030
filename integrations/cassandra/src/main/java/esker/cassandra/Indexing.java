package esker.cassandra;

import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Rows;
import org.apache.cassandra.index.transactions.UpdateTransaction;

/**
 * Reports to secondary indexes what an update changes in the memtable.
 *
 * <p>An index needs the row before, so updates of a partition take turns in the memtable. The
 * reports may overtake each other: what they insert and delete has the timestamps of the cells.
 */
final class Indexing {
    private static final int LOCKS = 256;

    private final Lock[] locks = new Lock[LOCKS];

    Indexing() {
        for (int i = 0; i < LOCKS; i++) {
            locks[i] = new ReentrantLock();
        }
    }

    /** Returns the lock of a partition. */
    Lock lock(DecoratedKey key) {
        return locks[Math.floorMod(key.hashCode(), LOCKS)];
    }

    /** Reports {@code update}. {@code before} is the partition without it, or {@code null}. */
    static void report(PartitionUpdate before, PartitionUpdate update, UpdateTransaction indexer) {
        indexer.start();
        try {
            if (!update.partitionLevelDeletion().isLive()) {
                indexer.onPartitionDeletion(update.partitionLevelDeletion());
            }
            update.deletionInfo().rangeIterator(false).forEachRemaining(indexer::onRangeTombstone);
            if (!update.staticRow().isEmpty()) {
                report(before == null ? null : before.staticRow(), update.staticRow(), indexer);
            }
            for (Row row : update) {
                report(before == null ? null : before.getRow(row.clustering()), row, indexer);
            }
        } finally {
            indexer.commit();
        }
    }

    private static void report(Row before, Row row, UpdateTransaction indexer) {
        if (before == null || before.isEmpty()) {
            indexer.onInserted(row);
        } else {
            indexer.onUpdated(before, Rows.merge(before, row));
        }
    }
}
