package esker.cassandra;

import com.google.common.util.concurrent.RateLimiter;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.FBUtilities;
import org.apache.cassandra.utils.MBeanWrapper;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Purges and cleans up the tables whose rows Esker keeps. A thread of its own purges at times. */
public final class KeptTables implements KeptTablesMBean {
    private static final Logger LOGGER = LoggerFactory.getLogger(KeptTables.class);

    static final String NAME = "org.apache.cassandra.db:type=EskerTables";
    private static final long PURGE_HOURS = 6;

    /** A purge reads so many bytes a second. */
    private static final double RATE = 16 << 20;

    private static boolean isStarted;

    private final RateLimiter rate = RateLimiter.create(RATE);

    private KeptTables() {}

    static synchronized void start() {
        if (isStarted) {
            return;
        }
        isStarted = true;
        KeptTables tables = new KeptTables();
        MBeanWrapper.instance.registerMBean(tables, NAME);
        Thread thread = new Thread(tables::purgeAtTimes, "EskerPurge");
        thread.setDaemon(true);
        thread.setPriority(Thread.MIN_PRIORITY);
        thread.start();
    }

    private void purgeAtTimes() {
        while (true) {
            long end = System.nanoTime() + TimeUnit.HOURS.toNanos(PURGE_HOURS);
            for (long left = 1; left > 0; left = end - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
            for (ColumnFamilyStore table : ColumnFamilyStore.all()) {
                try {
                    purge(table);
                } catch (RuntimeException | AssertionError error) {
                    // The next time tries again.
                    LOGGER.warn("purging {} failed", table.metadata(), error);
                }
            }
        }
    }

    private long purge(ColumnFamilyStore table) {
        if (!(table.getCurrentMemtable() instanceof EskerMemtable)) {
            return 0;
        }
        EskerMemtable memtable = (EskerMemtable) table.getCurrentMemtable();
        return memtable.isPrimary() ? memtable.purge(rate) : 0;
    }

    @Override
    public long purge(String keyspace, String table) {
        return purge(find(keyspace, table));
    }

    @Override
    public void cleanup(String keyspace, String table) {
        ColumnFamilyStore store = find(keyspace, table);
        StorageService service = StorageService.instance;
        boolean isChanging =
                !service.getTokenMetadata()
                        .getPendingRanges(keyspace, FBUtilities.getBroadcastAddressAndPort())
                        .isEmpty();
        if (isChanging || !service.isJoined()) {
            throw new IllegalStateException(
                    "cleaning up "
                            + store.metadata()
                            + " failed: this node is joining or leaving, or gets ranges of a node"
                            + " that is; try again after it");
        }
        List<Range<Token>> owned =
                Range.normalize(service.getLocalReplicas(keyspace).ranges());
        EskerMemtable memtable = (EskerMemtable) store.getCurrentMemtable();
        Token least = store.getPartitioner().getMinimumToken();
        Token from = least;
        List<Range<PartitionPosition>> others = new ArrayList<>();
        for (Range<Token> range : owned) {
            if (!range.left.equals(from)) {
                others.add(Range.makeRowRange(from, range.left));
            }
            from = range.right;
        }
        if (owned.isEmpty() || !from.equals(least)) {
            others.add(Range.makeRowRange(from, least));
        }
        others.forEach(memtable::delete);
        LOGGER.info("{}: deleted the rows of {} ranges of other nodes", store.metadata(), others);
    }

    @Override
    public void forget(String id) {
        TableId table = TableId.fromString(id);
        TableMetadata known = Schema.instance.getTableMetadata(table);
        if (known != null) {
            throw new IllegalArgumentException(
                    "deleting the rows of table " + id + " failed: it is " + known + "; drop it");
        }
        Store.deleteEverywhere(table);
        LOGGER.info("deleted the rows of table {}, which is not in the schema", id);
    }

    private static ColumnFamilyStore find(String keyspace, String table) {
        TableMetadata metadata = Schema.instance.getTableMetadata(keyspace, table);
        ColumnFamilyStore store =
                metadata == null ? null : Schema.instance.getColumnFamilyStoreInstance(metadata.id);
        if (store == null
                || !(store.getCurrentMemtable() instanceof EskerMemtable)
                || !((EskerMemtable) store.getCurrentMemtable()).isPrimary()) {
            throw new IllegalArgumentException(
                    keyspace + "." + table + " is no table whose rows Esker keeps");
        }
        return store;
    }
}
