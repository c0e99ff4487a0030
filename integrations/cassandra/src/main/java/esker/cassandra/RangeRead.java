package esker.cassandra;

import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.AbstractUnfilteredPartitionIterator;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.TableMetadata;

/** A read of a range of partitions. */
final class RangeRead extends AbstractUnfilteredPartitionIterator {
    private final EskerMemtable memtable;
    private final Partitions partitions;
    private final ColumnFilter columns;
    private final DataRange range;

    RangeRead(
            EskerMemtable memtable, Partitions partitions, ColumnFilter columns, DataRange range) {
        this.memtable = memtable;
        this.partitions = partitions;
        this.columns = columns;
        this.range = range;
    }

    @Override
    public TableMetadata metadata() {
        return memtable.metadata();
    }

    @Override
    public boolean hasNext() {
        return partitions.hasNext();
    }

    @Override
    public UnfilteredRowIterator next() {
        PartitionUpdate update = memtable.partition(partitions.next());
        return range.clusteringIndexFilter(update.partitionKey())
                .getUnfilteredRowIterator(columns, update);
    }

    @Override
    public void close() {
        partitions.close();
    }
}
