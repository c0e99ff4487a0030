package esker.cassandra;

import com.codahale.metrics.Gauge;
import esker.Db;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.metrics.CassandraMetricsRegistry;
import org.apache.cassandra.metrics.DefaultNameFactory;

/**
 * The metrics of a node's database, in Cassandra's registry. They stay as long as the process
 * lives, as the database does.
 */
final class NodeMeters {
    /** Exporters read all gauges in turn; one page of statistics serves them. */
    private static final long PAGE_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

    private static final double MILLIS = 1e3;

    private final Db db;
    private final DefaultNameFactory names;
    private Map<String, Double> page = Map.of();
    private long pageTime;

    private NodeMeters(Db db, Path dir) {
        this.db = db;
        // These have a meaning in the names of beans.
        names = new DefaultNameFactory("Esker", dir.toString().replaceAll("[,=:\"*?\\s]", "_"));
    }

    /**
     * Registers the metrics of {@code db}, whose directory is the scope of their names.
     *
     * @param poolBytes the size of its pool, or 0 if files have its log
     */
    static void register(Db db, Path dir, long poolBytes) {
        NodeMeters meters = new NodeMeters(db, dir);
        meters.add("Writes", "esker_writes_total");
        meters.add("LogBytes", "esker_log_bytes_total");
        meters.add("LogSyncs", "esker_log_syncs_total");
        meters.add("LogSegments", "esker_log_segments");
        meters.add("MemtableBytes", "esker_memtable_bytes");
        meters.add("MemoryLimitBytes", "esker_memory_budget_bytes");
        meters.add("CacheBytes", "esker_cache_bytes");
        meters.add("Tables", "esker_tables");
        meters.add("TableBytes", "esker_table_bytes");
        meters.add("Flushes", "esker_flushes_total");
        meters.add("Compactions", "esker_compactions_total");
        meters.add("BackgroundError", "esker_background_error");
        meters.add(
                "MemoryBytes",
                () ->
                        meters.value("esker_memory_charged_bytes")
                                + meters.value("esker_cache_bytes"));
        meters.add(
                "StalledMillis",
                () -> MILLIS * meters.value("esker_stalled_seconds_total"));
        meters.add("StorageBytes", () -> (double) db.usedBytes());
        meters.add("PoolBytes", () -> (double) poolBytes);
    }

    private void add(String name, String metric) {
        add(name, () -> value(metric));
    }

    private void add(String name, Gauge<Double> value) {
        Gauge<Long> whole = () -> Math.round(value.getValue());
        CassandraMetricsRegistry.Metrics.register(names.createMetricName(name), whole);
    }

    private synchronized double value(String metric) {
        long now = System.nanoTime();
        if (page.isEmpty() || now - pageTime >= PAGE_NANOS) {
            page = values(db.prometheus("node"));
            pageTime = now;
        }
        return page.getOrDefault(metric, 0.0);
    }

    /** Reads a page for Prometheus: lines of a name, labels and a value. */
    static Map<String, Double> values(String page) {
        Map<String, Double> values = new HashMap<>();
        page.lines()
                .filter(line -> !line.startsWith("#"))
                .forEach(
                        line -> {
                            int labels = line.indexOf('{');
                            int value = line.lastIndexOf(' ');
                            if (labels > 0 && value > labels) {
                                values.put(
                                        line.substring(0, labels),
                                        Double.parseDouble(line.substring(value + 1)));
                            }
                        });
        return values;
    }
}
