package esker.cassandra;

import esker.Batch;
import esker.Db;
import esker.Entry;
import esker.Keyspace;
import esker.Range;
import esker.Scan;
import esker.Settings;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.cassandra.config.CassandraRelevantProperties;
import org.apache.cassandra.db.SystemKeyspace;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The database of a node. Every write is durable before it returns.
 *
 * <p>The keyspace {@code rows} has the updates, see {@link Keys} and {@link Updates}. The keyspace
 * {@code node} has:
 *
 * <ul>
 *   <li>{@code host}: the host ID of the node
 *   <li>{@code starts}: how often the database was opened, the upper half of each generation
 *   <li>{@code out}, table, generation: when the memtable was switched out, in milliseconds. A
 *       later truncation includes its rows, even if their flush failed.
 *   <li>{@code kept}, table: a mark. Esker is the primary storage of the table, so its rows stay
 *       if a start finds no such table in the schema.
 *   <li>{@code temporary}, table, name: an SSTable for a stream, see {@link StreamFiles}
 *   <li>{@code done}, table, generation: a mark. The rows of that generation are in SSTables, or
 *       were truncated. The mark is deleted with the rows.
 * </ul>
 */
final class Store {
    private static final Logger LOGGER = LoggerFactory.getLogger(Store.class);

    private static final byte[] HOST = "host".getBytes(StandardCharsets.UTF_8);
    private static final byte[] STARTS = "starts".getBytes(StandardCharsets.UTF_8);
    private static final byte[] OUT = "out".getBytes(StandardCharsets.UTF_8);
    private static final byte[] KEPT = "kept".getBytes(StandardCharsets.UTF_8);
    private static final byte[] TEMPORARY = "temporary".getBytes(StandardCharsets.UTF_8);
    private static final byte[] DONE = "done".getBytes(StandardCharsets.UTF_8);

    /** Enough for every update of a run. */
    private static final int SEQUENCE_BITS = 40;

    private static final Map<Path, Store> OPEN = new HashMap<>();

    private final Path dir;
    private final Map<String, String> settings;
    private final PoolFile pool;
    private final Db db;
    private final Keyspace rows;
    private final Keyspace node;
    private final long start;
    private final long firstGeneration;
    private final AtomicLong generation;
    private final Set<Long> taken = ConcurrentHashMap.newKeySet();
    private UUID host;
    private Leftovers leftovers;

    private Store(Path dir, Map<String, String> settings, PoolFile pool) throws IOException {
        this.dir = dir;
        this.settings = settings;
        this.pool = pool;
        Settings given = new Settings();
        settings.forEach(given::set);
        if (pool == null) {
            given.set("sync", "always");
        } else {
            pool.prepare(dir);
            given.pool(pool.pool());
        }
        db = Db.open(dir, given);
        rows = db.keyspace("rows");
        node = db.keyspace("node");
        byte[] starts = node.get(STARTS);
        start = 1 + (starts == null ? 0 : ByteBuffer.wrap(starts).getLong());
        firstGeneration = start << Integer.SIZE;
        generation = new AtomicLong(firstGeneration);
        NodeMeters.register(db, dir, pool == null ? 0 : pool.bytesOrDefault());
    }

    /**
     * Opens the database in {@code dir}. It stays open as long as the process lives.
     *
     * @param pool has the log, or is {@code null} if files have it
     */
    static Store open(Path dir, Map<String, String> settings, PoolFile pool) {
        Path path = dir.toAbsolutePath().normalize();
        synchronized (OPEN) {
            Store open = OPEN.get(path);
            if (open == null) {
                try {
                    Files.createDirectories(path.getParent());
                    open = new Store(path, settings, pool);
                } catch (Exception | LinkageError error) {
                    throw new ConfigurationException(
                            "opening Esker's database "
                                    + path
                                    + " failed: "
                                    + error
                                    + "; mend the cause and try again",
                            error);
                }
                OPEN.put(path, open);
            } else if (!open.settings.equals(settings) || !Objects.equals(open.pool, pool)) {
                throw new ConfigurationException(
                        "opening Esker's database "
                                + path
                                + " failed: two memtable configurations have different settings"
                                + " for it; give one of them another directory");
            }
            return open;
        }
    }

    /** Returns what takes the rows that an earlier run left. The first call begins it. */
    synchronized Leftovers leftovers() {
        if (leftovers == null) {
            leftovers = Leftovers.start(this);
        }
        return leftovers;
    }

    Path dir() {
        return dir;
    }

    Keyspace rows() {
        return rows;
    }

    /**
     * Makes the database that of node {@code id}. Nothing else in it may change before.
     *
     * @throws ConfigurationException if it belongs to another node
     */
    synchronized void claim(UUID id) {
        if (host == null) {
            byte[] stored = node.get(HOST);
            byte[] present = id.toString().getBytes(StandardCharsets.UTF_8);
            if (stored == null || Arrays.equals(stored, present)) {
                byte[] starts = ByteBuffer.allocate(Long.BYTES).putLong(start).array();
                db.write(new Batch().put(node, HOST, present).put(node, STARTS, starts));
                stored = present;
            }
            host = UUID.fromString(new String(stored, StandardCharsets.UTF_8));
        }
        if (!host.equals(id)) {
            throw new ConfigurationException(
                    "opening Esker's database "
                            + dir
                            + " failed: it belongs to the node with host ID "
                            + host
                            + ", this node is "
                            + id
                            + "; name the directory of this node in cassandra.yaml");
        }
    }

    /** Returns a number below all sequences of this run, and above those of earlier runs. */
    long firstSequence() {
        return start << SEQUENCE_BITS;
    }

    /** Notes that a memtable of this run has the generations: nothing else moves or deletes them. */
    void take(List<Long> generations) {
        taken.addAll(generations);
    }

    /** Whether a memtable of this run has taken the generation over. */
    boolean isTaken(long generation) {
        return taken.contains(generation);
    }

    long nextGeneration() {
        return generation.incrementAndGet();
    }

    /** Returns the tables that have rows. */
    List<TableId> tables() {
        List<TableId> tables = new ArrayList<>();
        byte[] start = new byte[0];
        while (start != null) {
            byte[] key = firstKey(rows, start, null);
            start = null;
            if (key != null) {
                TableId table = Keys.tableOf(key);
                tables.add(table);
                start = Keys.after(Keys.table(table));
            }
        }
        return tables;
    }

    /**
     * Returns the generations of {@code table} that earlier runs left, and deletes those that are
     * done or truncated.
     */
    List<Long> recover(TableId table) {
        TreeSet<Long> done = new TreeSet<>();
        byte[] marks = Keys.join(DONE, Keys.table(table));
        try (Scan scan = node.scan(Range.prefix(marks))) {
            scan.forEachRemaining(
                    entry -> done.add(ByteBuffer.wrap(entry.key()).getLong(marks.length)));
        }
        byte[] outs = Keys.join(OUT, Keys.table(table));
        try (Scan scan = node.scan(Range.prefix(outs))) {
            while (scan.hasNext()) {
                Entry entry = scan.next();
                long time = ByteBuffer.wrap(entry.value()).getLong();
                if (time <= SystemKeyspace.getTruncatedAt(table)) {
                    done.add(ByteBuffer.wrap(entry.key()).getLong(outs.length));
                }
            }
        }
        // Readers may still use one of this run.
        done.headSet(firstGeneration).forEach(generation -> delete(table, generation));
        List<Long> live = new ArrayList<>();
        byte[] start = Keys.table(table);
        byte[] end = Keys.prefix(table, firstGeneration);
        byte[] key;
        while ((key = firstKey(rows, start, end)) != null) {
            long generation = Keys.generationOf(key);
            live.add(generation);
            start = Keys.after(Keys.prefix(table, generation));
        }
        return live;
    }

    private static byte[] firstKey(Keyspace keyspace, byte[] start, byte[] end) {
        try (Scan scan = keyspace.scan(Range.of(start, end))) {
            return scan.hasNext() ? scan.peekKey() : null;
        }
    }

    /** Marks that a truncation at {@code time} or later includes the generation. */
    void markOut(TableId table, long generation, long time) {
        byte[] value = ByteBuffer.allocate(Long.BYTES).putLong(time).array();
        node.put(Keys.join(OUT, Keys.prefix(table, generation)), value);
    }

    /** Marks that nothing of the generation is needed after a restart. */
    void markDone(TableId table, long generation) {
        node.put(Keys.join(DONE, Keys.prefix(table, generation)), new byte[0]);
    }

    /** Marks that Esker is the primary storage of a table. */
    void markKept(TableId table) {
        if (!isKept(table)) {
            node.put(Keys.join(KEPT, Keys.table(table)), new byte[0]);
        }
    }

    /** Whether the rows of a table are there to stay, until it is dropped. */
    boolean isKept(TableId table) {
        return node.contains(Keys.join(KEPT, Keys.table(table)));
    }

    /** Notes that a table was dropped. */
    void forgetKept(TableId table) {
        node.delete(Keys.join(KEPT, Keys.table(table)));
    }

    /** Records the name of an SSTable that must not outlive this run. */
    void markTemporary(TableId table, String name) {
        node.put(temporary(table, name), new byte[0]);
    }

    void forgetTemporary(TableId table, String name) {
        node.delete(temporary(table, name));
    }

    /** Returns the names of a table that are recorded. */
    List<String> temporaries(TableId table) {
        byte[] prefix = temporary(table, "");
        List<String> names = new ArrayList<>();
        try (Scan scan = node.scan(Range.prefix(prefix))) {
            scan.forEachRemaining(
                    entry ->
                            names.add(
                                    new String(
                                            entry.key(),
                                            prefix.length,
                                            entry.key().length - prefix.length,
                                            StandardCharsets.UTF_8)));
        }
        return names;
    }

    private static byte[] temporary(TableId table, String name) {
        byte[] prefix = Keys.join(TEMPORARY, Keys.table(table));
        return Keys.join(prefix, name.getBytes(StandardCharsets.UTF_8));
    }

    /** Deletes the rows of a generation, and its marks. */
    void delete(TableId table, long generation) {
        byte[] prefix = Keys.prefix(table, generation);
        db.write(
                new Batch()
                        .deleteRange(rows, prefix, Keys.after(prefix))
                        .delete(node, Keys.join(OUT, prefix))
                        .delete(node, Keys.join(DONE, prefix)));
    }

    /** Deletes all rows of a table. */
    void delete(TableId table) {
        byte[] prefix = Keys.table(table);
        byte[] outs = Keys.join(OUT, prefix);
        byte[] marks = Keys.join(DONE, prefix);
        db.write(
                new Batch()
                        .deleteRange(rows, prefix, Keys.after(prefix))
                        .deleteRange(node, outs, Keys.after(outs))
                        .deleteRange(node, marks, Keys.after(marks))
                        .delete(node, Keys.join(KEPT, prefix)));
    }

    /** Deletes all rows of a table from each database of this node. */
    static void deleteEverywhere(TableId table) {
        synchronized (OPEN) {
            OPEN.values().forEach(store -> store.delete(table));
        }
    }

    /** Deletes the partitions of a generation from {@code start} to before {@code end}. */
    void delete(byte[] prefix, byte[] start, byte[] end) {
        byte[] from = start == null ? prefix : Keys.join(prefix, start);
        byte[] to = end == null ? Keys.after(prefix) : Keys.join(prefix, end);
        rows.deleteRange(from, to);
    }

    /** Replaces entries by one that says the same, or by none if it is {@code null}. */
    void replace(List<byte[]> keys, byte[] key, byte[] value) {
        Batch batch = new Batch();
        if (value != null) {
            batch.put(rows, key, value);
        }
        keys.forEach(old -> batch.delete(rows, old));
        db.write(batch);
    }

    /**
     * Reads an update of an earlier run. Returns {@code null} if it is unreadable and the node is
     * started to drop such rows. It is deleted then.
     *
     * @throws IllegalStateException if it is unreadable
     */
    PartitionUpdate readRecovered(TableMetadata table, Entry entry) {
        try {
            return Updates.read(table, entry.value());
        } catch (RuntimeException | AssertionError error) {
            String what =
                    "reading an update of table "
                            + table
                            + " in Esker's database "
                            + dir
                            + " failed: "
                            + error;
            if (!CassandraRelevantProperties.COMMITLOG_IGNORE_REPLAY_ERRORS.getBoolean()) {
                throw new IllegalStateException(
                        what
                                + "; start with -D"
                                + CassandraRelevantProperties.COMMITLOG_IGNORE_REPLAY_ERRORS
                                        .getKey()
                                + "=true to drop it",
                        error);
            }
            LOGGER.error("{}; it is dropped", what, error);
            rows.delete(entry.key());
            return null;
        }
    }

    void put(byte[] key, byte[] value) {
        rows.put(key, value);
    }
}
