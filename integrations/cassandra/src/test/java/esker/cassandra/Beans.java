package esker.cassandra;

import java.lang.management.ManagementFactory;
import java.lang.management.MemoryMXBean;
import java.util.Map;
import javax.management.JMX;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;
import org.apache.cassandra.db.ColumnFamilyStoreMBean;
import org.apache.cassandra.service.StorageServiceMBean;

/** The JMX beans of a running node. */
record Beans(int port) {
    private static final String METRICS = "org.apache.cassandra.metrics:";

    private static final String KEPT_TABLES = "org.apache.cassandra.db:type=EskerTables";

    private interface Call<T> {
        T of(MBeanServerConnection beans) throws Exception;
    }

    /** A call of what {@code nodetool} calls. */
    interface StorageCall<T> {
        T of(StorageServiceMBean storage) throws Exception;
    }

    /** A call of what {@code nodetool} calls for a table. */
    interface TableCall<T> {
        T of(ColumnFamilyStoreMBean table) throws Exception;
    }

    private <T> T connected(Call<T> call) {
        String url = "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + port + "/jmxrmi";
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(url))) {
            return call.of(connector.getMBeanServerConnection());
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private <B, T> T proxy(String name, Class<B> type, ProxyCall<B, T> call) {
        return connected(
                beans -> call.of(JMX.newMBeanProxy(beans, new ObjectName(name), type)));
    }

    private interface ProxyCall<B, T> {
        T of(B bean) throws Exception;
    }

    <T> T storage(StorageCall<T> call) {
        return proxy(
                "org.apache.cassandra.db:type=StorageService", StorageServiceMBean.class, call::of);
    }

    <T> T table(String keyspace, String table, TableCall<T> call) {
        return proxy(
                "org.apache.cassandra.db:type=Tables,keyspace=" + keyspace + ",table=" + table,
                ColumnFamilyStoreMBean.class,
                call::of);
    }

    /** Folds and purges a table whose rows Esker keeps. Returns how many partitions changed. */
    long purge(String keyspace, String table) {
        return proxy(KEPT_TABLES, KeptTablesMBean.class, bean -> bean.purge(keyspace, table));
    }

    void cleanup(String keyspace, String table) {
        proxy(
                KEPT_TABLES,
                KeptTablesMBean.class,
                bean -> {
                    bean.cleanup(keyspace, table);
                    return null;
                });
    }

    /** Deletes the rows of a table that the schema lacks. */
    void forget(String id) {
        proxy(
                KEPT_TABLES,
                KeptTablesMBean.class,
                bean -> {
                    bean.forget(id);
                    return null;
                });
    }

    /** Collects garbage, and returns how many bytes of the heap are in use. */
    long heapBytes() {
        return connected(
                beans -> {
                    MemoryMXBean memory =
                            ManagementFactory.newPlatformMXBeanProxy(
                                    beans,
                                    ManagementFactory.MEMORY_MXBEAN_NAME,
                                    MemoryMXBean.class);
                    memory.gc();
                    return memory.getHeapMemoryUsage().getUsed();
                });
    }

    /** Returns an attribute of a metric. */
    long metric(String name, String attribute) {
        return connected(
                beans -> {
                    Object value = beans.getAttribute(new ObjectName(METRICS + name), attribute);
                    return ((Number) value).longValue();
                });
    }

    /** Returns how many metrics match {@code pattern}. */
    int countMetrics(String pattern) {
        return connected(beans -> beans.queryNames(new ObjectName(METRICS + pattern), null))
                .size();
    }

    /** Returns how many SSTables a table has. */
    long sstables(String keyspace, String table) {
        String metric = "type=Table,keyspace=" + keyspace + ",scope=" + table;
        return metric(metric + ",name=LiveSSTableCount", "Value");
    }

    void flush(String keyspace, String... tables) {
        storage(
                storage -> {
                    storage.forceKeyspaceFlush(keyspace, tables);
                    return null;
                });
    }

    /** Repairs a keyspace of the node, and waits for the end. */
    void repair(String keyspace, boolean isIncremental) {
        Map<String, String> options =
                Map.of(
                        "parallelism",
                        "parallel",
                        "incremental",
                        String.valueOf(isIncremental),
                        "primaryRange",
                        "false");
        storage(
                storage -> {
                    int command = storage.repairAsync(keyspace, options);
                    while (true) {
                        var status = storage.getParentRepairStatus(command);
                        if (status != null && status.get(0).equals("COMPLETED")) {
                            return null;
                        }
                        if (status != null && status.get(0).equals("FAILED")) {
                            throw new IllegalStateException("the repair failed: " + status);
                        }
                        Node.pause(100);
                    }
                });
    }
}
