package esker.cassandra;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.config.InheritingClass;
import org.apache.cassandra.db.SystemKeyspace;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.memtable.SkipListMemtableFactory;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.apache.cassandra.metrics.TableMetrics;
import org.apache.cassandra.schema.SchemaConstants;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.service.StorageService;

/**
 * Makes the memtables of one configuration in {@code cassandra.yaml}.
 *
 * <p>A node that starts replaces a configuration that throws by Cassandra's default, and would
 * serve its tables without the rows in Esker. So {@link #of} throws while the node runs only. At
 * the start, the first memtable throws, which stops the node.
 */
final class EskerFactory implements Memtable.Factory {
    private static final String NOT_DEFAULT =
            "creating a memtable of Esker failed: system tables need the commit log; do not make"
                    + " Esker the configuration \"default\" in cassandra.yaml";

    private static final String DIRECTORY = "directory";
    private static final String MEMORY_BYTES = "memory_bytes";
    private static final String SEGMENT_BYTES = "segment_bytes";

    private static final String PRIMARY = "primary";

    private final Map<String, String> options;
    private boolean isPrimary;
    private Store store;
    private Leftovers leftovers;
    private ConfigurationException failure;

    private EskerFactory(Map<String, String> options) {
        this.options = options;
    }

    static EskerFactory of(Map<String, String> options) {
        EskerFactory factory = new EskerFactory(new HashMap<>(options));
        options.clear();
        // Offline tools read the schema, too.
        if (DatabaseDescriptor.isDaemonInitialized()) {
            if (isDefault()) {
                // Cassandra asks for it before it has a schema.
                factory.failure = new ConfigurationException(NOT_DEFAULT);
                return factory;
            }
            factory.open();
            Transitions.watch();
            if (factory.failure != null && StorageService.instance.isDaemonSetupCompleted()) {
                throw factory.failure;
            }
        }
        return factory;
    }

    private static boolean isDefault() {
        Map<String, InheritingClass> all = DatabaseDescriptor.getMemtableConfigurations();
        InheritingClass found = all.get("default");
        while (found != null && found.class_name == null) {
            found = all.get(found.inherits);
        }
        return found != null && EskerMemtable.class.getName().equals(found.class_name);
    }

    private synchronized void open() {
        Map<String, String> settings = new HashMap<>(options);
        String directory = settings.remove(DIRECTORY);
        Path dir =
                directory == null
                        ? Path.of(DatabaseDescriptor.getCommitLogLocation())
                                .toAbsolutePath()
                                .resolveSibling("esker")
                        : Path.of(directory);
        try {
            isPrimary = takeFlag(settings, PRIMARY);
            PoolFile pool = PoolFile.take(settings);
            Memory memory = pool == null ? Memory.forMemtables() : Memory.forPool(pool);
            settings.putIfAbsent(SEGMENT_BYTES, String.valueOf(memory.segmentBytes()));
            settings.putIfAbsent(MEMORY_BYTES, String.valueOf(memory.bytes()));
            store = Store.open(dir, settings, pool);
            leftovers = store.leftovers();
            if (isPrimary) {
                KeptTables.start();
            }
        } catch (ConfigurationException error) {
            failure = error;
        } catch (RuntimeException error) {
            failure =
                    new ConfigurationException(
                            "opening Esker's database " + dir + " failed: " + error, error);
        }
    }

    private static boolean takeFlag(Map<String, String> settings, String name) {
        String value = settings.remove(name);
        if (value != null && !value.equals("true") && !value.equals("false")) {
            throw new ConfigurationException(
                    "configuring Esker's memtable failed: "
                            + name
                            + " is \""
                            + value
                            + "\", and must be true or false; correct cassandra.yaml");
        }
        return "true".equals(value);
    }

    /** Whether Esker keeps the rows of {@code table}. */
    synchronized boolean isPrimary(TableMetadata table) {
        return isPrimary && Primary.isPossible(table);
    }

    /** Whether its memtables are in {@code store}. */
    synchronized boolean uses(Store other) {
        return store == other;
    }

    /** Returns the database, which now belongs to this node. */
    private synchronized Store store() {
        if (store == null) {
            throw failure;
        }
        UUID host = SystemKeyspace.getLocalHostId();
        if (host == null) {
            throw new ConfigurationException(
                    "creating a memtable of Esker failed: the node has no host ID before it has"
                            + " joined; create the table then");
        }
        store.claim(host);
        return store;
    }

    @Override
    public Memtable create(
            AtomicReference<CommitLogPosition> lowerBound,
            TableMetadataRef table,
            Memtable.Owner owner) {
        if (SchemaConstants.isSystemKeyspace(table.keyspace)) {
            throw new ConfigurationException(NOT_DEFAULT);
        }
        if (table.get().isIndex()) {
            // Its rows follow from those of the table. It has the ID of the table.
            return SkipListMemtableFactory.INSTANCE.create(lowerBound, table, owner);
        }
        boolean isKept = isPrimary(table.get());
        return new EskerMemtable(lowerBound, table, owner, store(), leftovers, isKept);
    }

    @Override
    public TableMetrics.ReleasableMetric createMemtableMetrics(TableMetadataRef table) {
        TableMetadata metadata = table.get();
        if (metadata.isIndex()) {
            return null;
        }
        TableMeters.of(metadata);
        return () -> TableMeters.release(metadata.id);
    }

    @Override
    public boolean writesShouldSkipCommitLog() {
        return !Transitions.isAny();
    }

    /**
     * Whether the commit log is not needed for any row of these tables.
     *
     * <p>It is needed while a table changes to Esker, whose last memtable of Cassandra may not be
     * flushed yet. A node that starts can't know whether it was killed meanwhile, so it replays
     * what the log has. Rows that are in Esker already get the same timestamps again.
     */
    @Override
    public boolean writesAreDurable() {
        return StorageService.instance.isDaemonSetupCompleted() && !Transitions.isAny();
    }

    /** SSTables that another node sends become rows in Esker. */
    @Override
    public synchronized boolean streamToMemtable() {
        return isPrimary;
    }

    /** Cassandra writes the rows that it sends to another node to an SSTable of its own. */
    @Override
    public synchronized boolean streamFromMemtable() {
        return isPrimary;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof EskerFactory && options.equals(((EskerFactory) other).options);
    }

    @Override
    public int hashCode() {
        return options.hashCode();
    }
}
