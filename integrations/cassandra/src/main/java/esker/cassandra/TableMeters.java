package esker.cassandra;

import com.codahale.metrics.Counter;
import com.codahale.metrics.Histogram;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.metrics.CassandraMetricsRegistry;
import org.apache.cassandra.metrics.CassandraMetricsRegistry.MetricName;
import org.apache.cassandra.metrics.LatencyMetrics;
import org.apache.cassandra.metrics.MetricNameFactory;
import org.apache.cassandra.metrics.TableMetrics;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;

/**
 * The metrics of one table on Esker, in Cassandra's registry. All memtables of the table share them
 * until it is dropped.
 */
final class TableMeters implements MetricNameFactory {
    private static final String TYPE = "EskerMemtable";
    private static final String FOLDS = "Folds";
    private static final String UPDATES_PER_READ = "UpdatesPerRead";
    private static final String RECOVERED_UPDATES = "RecoveredUpdates";
    private static final String RECOVERED_BYTES = "RecoveredBytes";
    private static final List<String> PLAIN =
            List.of(FOLDS, UPDATES_PER_READ, RECOVERED_UPDATES, RECOVERED_BYTES);

    /** A charge that takes so long has waited. */
    private static final long WAIT_NANOS = 1_000_000;

    private static final Map<TableId, TableMeters> TABLES = new HashMap<>();

    private final String keyspace;
    private final String table;

    /** How long a durable put took, with all waits. */
    private final LatencyMetrics puts;

    /** How long a put waited for Cassandra's limits of memtables. */
    private final LatencyMetrics limitWaits;

    private final Counter folds;
    private final Histogram updatesPerRead;
    private final Counter recoveredUpdates;
    private final Counter recoveredBytes;

    private TableMeters(TableMetadata table) {
        this.keyspace = table.keyspace;
        this.table = table.name;
        CassandraMetricsRegistry registry = CassandraMetricsRegistry.Metrics;
        puts = new LatencyMetrics(this, "Put");
        limitWaits = new LatencyMetrics(this, "LimitWait");
        folds = registry.counter(createMetricName(FOLDS));
        updatesPerRead = registry.histogram(createMetricName(UPDATES_PER_READ), true);
        recoveredUpdates = registry.counter(createMetricName(RECOVERED_UPDATES));
        recoveredBytes = registry.counter(createMetricName(RECOVERED_BYTES));
    }

    /** Returns the metrics of {@code table}. The first call registers them. */
    static TableMeters of(TableMetadata table) {
        synchronized (TABLES) {
            return TABLES.computeIfAbsent(table.id, id -> new TableMeters(table));
        }
    }

    /** Removes the metrics of a table from the registry, if it has any. */
    static void release(TableId table) {
        synchronized (TABLES) {
            TableMeters meters = TABLES.remove(table);
            if (meters != null) {
                meters.release();
            }
        }
    }

    private void release() {
        puts.release();
        limitWaits.release();
        PLAIN.forEach(name -> CassandraMetricsRegistry.Metrics.remove(createMetricName(name)));
    }

    @Override
    public MetricName createMetricName(String name) {
        String group = TableMetrics.class.getPackage().getName();
        String bean =
                String.format(
                        "%s:type=%s,keyspace=%s,scope=%s,name=%s",
                        group, TYPE, keyspace, table, name);
        return new MetricName(group, TYPE, name, keyspace + "." + table, bean);
    }

    void put(long nanos) {
        puts.addNano(nanos);
    }

    void charged(long nanos) {
        if (nanos >= WAIT_NANOS) {
            limitWaits.addNano(nanos);
        }
    }

    void folded() {
        folds.inc();
    }

    void read(int updates) {
        updatesPerRead.update(updates);
    }

    void recovered(long updates, long bytes) {
        recoveredUpdates.inc(updates);
        recoveredBytes.inc(bytes);
    }
}
