package esker.cassandra;

import java.util.Iterator;
import java.util.List;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.RegularAndStaticColumns;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.EncodingStats;

/** The partitions of a range, to be written to an SSTable. */
final class FlushSet implements Memtable.FlushablePartitionSet<PartitionUpdate> {
    private final EskerMemtable memtable;
    private final PartitionPosition from;
    private final PartitionPosition to;
    private final byte[] start;
    private final byte[] end;
    private final RegularAndStaticColumns columns;
    private final EncodingStats stats;
    private final CommitLogPosition lower;
    private final CommitLogPosition upper;
    private final boolean isLive;
    private long count;
    private long keyBytes;
    private long bytes;

    /**
     * The set of a memtable that was switched out.
     *
     * @param columns all that its rows have
     * @param stats those of all rows
     */
    FlushSet(
            EskerMemtable memtable,
            PartitionPosition from,
            PartitionPosition to,
            RegularAndStaticColumns columns,
            EncodingStats stats) {
        this(
                memtable,
                from,
                to,
                columns,
                stats,
                memtable.getCommitLogLowerBound(),
                memtable.getFinalCommitLogUpperBound());
    }

    private FlushSet(
            EskerMemtable memtable,
            PartitionPosition from,
            PartitionPosition to,
            RegularAndStaticColumns columns,
            EncodingStats stats,
            CommitLogPosition lower,
            CommitLogPosition upper) {
        this.memtable = memtable;
        this.from = from;
        this.to = to;
        this.columns = columns;
        this.stats = stats;
        this.lower = lower;
        this.upper = upper;
        isLive = lower == StreamFiles.MARK;
        start = EskerMemtable.bound(from, false);
        end = EskerMemtable.bound(to, false);
        try (Partitions all = memtable.partitions(start, end)) {
            while (all.hasNext()) {
                List<byte[]> updates = all.next();
                keyBytes += Updates.partitionKeyLength(updates.get(0));
                updates.forEach(update -> bytes += update.length);
                count++;
            }
        }
    }

    /** Returns the set of a memtable that takes writes meanwhile. */
    static FlushSet ofLive(EskerMemtable memtable, PartitionPosition from, PartitionPosition to) {
        return new FlushSet(
                memtable,
                from,
                to,
                Primary.columns(memtable.metadata()),
                Primary.stats(),
                StreamFiles.MARK,
                StreamFiles.MARK);
    }

    @Override
    public Memtable memtable() {
        return memtable;
    }

    @Override
    public PartitionPosition from() {
        return from;
    }

    @Override
    public PartitionPosition to() {
        return to;
    }

    @Override
    public CommitLogPosition commitLogLowerBound() {
        return lower;
    }

    @Override
    public CommitLogPosition commitLogUpperBound() {
        return upper;
    }

    @Override
    public RegularAndStaticColumns columns() {
        return columns;
    }

    @Override
    public EncodingStats encodingStats() {
        return stats;
    }

    @Override
    public long partitionCount() {
        return count;
    }

    @Override
    public long partitionKeysSize() {
        return keyBytes;
    }

    @Override
    public long dataSize() {
        return bytes;
    }

    @Override
    public Iterator<PartitionUpdate> iterator() {
        // A flush reads it to its end, which closes it. The collector closes the scans of an
        // aborted flush.
        Partitions all = memtable.partitions(start, end);
        if (isLive) {
            memtable.streaming(false);
        }
        return new Iterator<>() {
            @Override
            public boolean hasNext() {
                boolean isMore = all.hasNext();
                if (isLive && !isMore) {
                    memtable.streaming(true);
                }
                return isMore;
            }

            @Override
            public PartitionUpdate next() {
                return memtable.partition(all.next());
            }
        };
    }
}
