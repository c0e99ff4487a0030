package esker.kafka;

import esker.Batch;
import esker.Db;
import esker.EskerException;
import esker.Settings;
import java.nio.file.Files;
import java.nio.file.Path;
import java.io.IOException;
import java.util.Collection;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.RecordBatchingStateRestoreCallback;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.internals.StoreQueryUtils;

/**
 * What all stores have in common: a database in the directory of the task, and the restore from the
 * changelog. A commit of the task syncs the log of the database.
 */
abstract class BytesStore implements StateStore {
    private static final String SEGMENT_BYTES = "4MiB";

    private final String name;
    private final Shared shared;
    private final Position position = Position.emptyPosition();
    private final Set<AutoCloseable> iterators = ConcurrentHashMap.newKeySet();
    private StateStoreContext context;
    private Path dir;
    private volatile boolean isOpen;
    private volatile Db db;

    BytesStore(String name, Shared shared) {
        this.name = name;
        this.shared = shared;
    }

    @Override
    public final String name() {
        return name;
    }

    @Override
    public void init(StateStoreContext context, StateStore root) {
        this.context = context;
        dir = context.stateDir().toPath().resolve("esker").resolve(name);
        isOpen = true;
        // A store that is new and never used makes no files.
        if (Files.exists(dir)) {
            db();
        }
        if (root != null) {
            context.register(root, (RecordBatchingStateRestoreCallback) this::restore);
        }
    }

    private Db openDb() {
        Db opened;
        try {
            Files.createDirectories(dir.getParent());
            Settings settings =
                    new Settings()
                            .set("segment_bytes", SEGMENT_BYTES)
                            .resources(shared.resources());
            opened = Db.open(dir, settings);
        } catch (IOException | EskerException error) {
            throw new ProcessorStateException("store " + name + " cannot be opened", error);
        }
        opened(opened);
        return opened;
    }

    /** Prepares the keyspaces of a database that was opened. */
    abstract void opened(Db db);

    /** Forgets the keyspaces of a database that is about to be closed. */
    void closing() {}

    /** Adds what a record of the changelog says. */
    abstract void restore(Batch batch, byte[] key, byte[] value);

    private void restore(Collection<ConsumerRecord<byte[], byte[]>> records) {
        // Kafka's own stores open again if they are restored after a close.
        isOpen = true;
        Batch batch = new Batch();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            restore(batch, record.key(), record.value());
            position.withComponent(record.topic(), record.partition(), record.offset());
        }
        db().write(batch);
    }

    final StateStoreContext context() {
        return context;
    }

    /** The database of a store that is open. Its first use opens it. */
    final Db db() {
        Db opened = db;
        return opened == null ? firstUse() : opened;
    }

    private synchronized Db firstUse() {
        if (!isOpen) {
            throw new InvalidStateStoreException("store " + name + " is closed");
        }
        if (db == null) {
            db = openDb();
        }
        return db;
    }

    /** Notes up to which record the store has seen its input. */
    final void advance() {
        StoreQueryUtils.updatePosition(position, context);
    }

    /** An iterator that is closed with the store. */
    final <T extends AutoCloseable> T opened(T iterator) {
        iterators.add(iterator);
        return iterator;
    }

    final void closed(AutoCloseable iterator) {
        iterators.remove(iterator);
    }

    @Override
    public final void flush() {
        Db opened = db;
        if (opened != null) {
            opened.sync();
        }
    }

    @Override
    public final synchronized void close() {
        isOpen = false;
        closing();
        for (AutoCloseable iterator : iterators) {
            try {
                iterator.close();
            } catch (Exception error) {
                throw new ProcessorStateException("store " + name + " cannot be closed", error);
            }
        }
        iterators.clear();
        if (db != null) {
            db.close();
            db = null;
        }
    }

    @Override
    public final boolean persistent() {
        return true;
    }

    @Override
    public final boolean isOpen() {
        return isOpen;
    }

    @Override
    public final Position getPosition() {
        return position;
    }

    @Override
    public final <R> QueryResult<R> query(
            Query<R> query, PositionBound bound, QueryConfig config) {
        return StoreQueryUtils.handleBasicQueries(query, bound, config, this, position, context);
    }
}
