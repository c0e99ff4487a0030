package esker.kafka;

import esker.Batch;
import esker.ClosedException;
import esker.Db;
import esker.EskerException;
import esker.Settings;
import java.io.File;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Collection;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.ChangelogRecordDeserializationHelper;
import org.apache.kafka.streams.processor.internals.RecordBatchingStateRestoreCallback;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.internals.OffsetCheckpoint;
import org.apache.kafka.streams.state.internals.StoreQueryUtils;

/**
 * What all stores have in common: a database in the directory of the task, the restore from the
 * changelog, and the position for interactive queries. A flush syncs the log of the database.
 */
abstract class BytesStore implements StateStore {
    /** A restore writes batches of about so many bytes: a batch has to fit in the memory budget. */
    private static final long RESTORED_AT_ONCE = 1 << 20;

    private final String name;
    private final Set<Entries<?>> iterators = ConcurrentHashMap.newKeySet();
    private Position position = Position.emptyPosition();
    private Shared shared;
    private StateStoreContext context;
    private boolean isConsistencyChecked;
    private boolean isExactlyOnce;
    private Path dir;

    /**
     * With exactly-once processing, this file says that the store was closed and is not open, and that
     * a commit covers all its writes.
     */
    private Path closed;

    /** Whether a write came after the last flush, which Kafka calls after a commit. */
    private volatile boolean isUncommitted;

    private volatile boolean isOpen;
    private volatile Db db;

    /** Makes a store. {@code shared} may be {@code null}: the configuration of the task decides then. */
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
        if (shared == null) {
            shared = new Shared(context.appConfigs());
        }
        dir = context.stateDir().toPath().resolve("esker").resolve(name);
        closed = context.stateDir().toPath().resolve("esker.closed").resolve(name);
        isExactlyOnce =
                StreamsConfig.EXACTLY_ONCE_V2.equals(
                        context.appConfigs().get(StreamsConfig.PROCESSING_GUARANTEE_CONFIG));
        forgetUncommitted();
        isConsistencyChecked =
                StreamsConfig.InternalConfig.getBoolean(
                        context.appConfigs(),
                        StreamsConfig.InternalConfig.IQ_CONSISTENCY_OFFSET_VECTOR_ENABLED,
                        false);
        OffsetCheckpoint saved =
                new OffsetCheckpoint(new File(context.stateDir(), name + ".position"));
        position = StoreQueryUtils.readPositionFromCheckpoint(saved);
        isOpen = true;
        // A store that is new and never used makes no files.
        if (Files.exists(dir)) {
            db();
        }
        if (root != null) {
            context.register(
                    root,
                    (RecordBatchingStateRestoreCallback) this::restore,
                    () -> StoreQueryUtils.checkpointPosition(saved, position));
        }
    }

    /**
     * Has Kafka delete what a killed application left, and restore it. The store can have writes whose
     * transaction was never committed. Kafka 4.1 can leave the checkpoint of a restore while the task
     * runs, and would then go on with them. Without a checkpoint it deletes the stores of the task.
     */
    private void forgetUncommitted() {
        if (!isExactlyOnce || !Files.exists(dir) || Files.exists(closed)) {
            return;
        }
        try {
            Files.deleteIfExists(context.stateDir().toPath().resolve(".checkpoint"));
        } catch (IOException error) {
            throw new ProcessorStateException("store " + name + " cannot be given up", error);
        }
    }

    /** The directory is synced: after a power loss the file must not be there again. */
    private void noteOpen() throws IOException {
        if (isExactlyOnce && Files.deleteIfExists(closed)) {
            try (FileChannel parent =
                    FileChannel.open(closed.getParent(), StandardOpenOption.READ)) {
                parent.force(true);
            }
        }
    }

    private void noteClosed() {
        // A task that failed closes its stores, too, before Kafka deletes them.
        if (!isExactlyOnce || isUncommitted) {
            return;
        }
        try {
            Files.createDirectories(closed.getParent());
            Files.write(closed, new byte[0]);
        } catch (IOException error) {
            throw new ProcessorStateException("store " + name + " cannot be closed", error);
        }
    }

    private Db openDb() {
        Db opened;
        try {
            Files.createDirectories(dir.getParent());
            noteOpen();
            Settings settings =
                    new Settings()
                            .set("segment_bytes", shared.segmentBytes())
                            // Kafka's cache is above the store, so another one of values has few hits.
                            .set("dram_table_bytes", "0")
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

    /** Prepares for a restore of these records, of which nothing is in a batch yet. */
    void restoring(Collection<ConsumerRecord<byte[], byte[]>> records) {}

    /** Adds what a record of the changelog says to {@code batch}, or writes it at once. */
    abstract void restore(Batch batch, ConsumerRecord<byte[], byte[]> record);

    private void restore(Collection<ConsumerRecord<byte[], byte[]>> records) {
        // Kafka's own stores open again if they are restored after a close.
        isOpen = true;
        call(
                () -> {
                    restoring(records);
                    Batch batch = new Batch();
                    long bytes = 0;
                    for (ConsumerRecord<byte[], byte[]> record : records) {
                        byte[] value = record.value();
                        restore(batch, record);
                        bytes += record.key().length + (value == null ? 0 : value.length);
                        if (bytes >= RESTORED_AT_ONCE) {
                            db().write(batch);
                            batch.clear();
                            bytes = 0;
                        }
                        ChangelogRecordDeserializationHelper.applyChecksAndUpdatePosition(
                                record, isConsistencyChecked, position);
                    }
                    db().write(batch);
                    return null;
                });
    }

    /** Runs {@code call}, and throws the exceptions that callers of a store expect. */
    final <T> T call(Supplier<T> call) {
        try {
            return call.get();
        } catch (ClosedException error) {
            throw closedError(error);
        } catch (EskerException error) {
            throw new ProcessorStateException("store " + name + " failed", error);
        }
    }

    final void run(Runnable call) {
        call(
                () -> {
                    call.run();
                    return null;
                });
    }

    /** What a call of a closed store throws. */
    final InvalidStateStoreException closedError(Throwable cause) {
        return new InvalidStateStoreException("store " + name + " is closed", cause);
    }

    /** The database of a store that is open. Its first use opens it. */
    final Db db() {
        Db opened = db;
        return opened == null ? firstUse() : opened;
    }

    private synchronized Db firstUse() {
        if (!isOpen) {
            throw closedError(null);
        }
        if (db == null) {
            db = openDb();
        }
        return db;
    }

    final FilterMemory filterMemory() {
        return shared.filterMemory();
    }

    /** Notes a write, and up to which record the store has seen its input. */
    final void advance() {
        isUncommitted = true;
        StoreQueryUtils.updatePosition(position, context);
    }

    final int partition() {
        return context.taskId().partition();
    }

    /** Has the iterator closed with the store. */
    final void opened(Entries<?> iterator) {
        iterators.add(iterator);
    }

    final void closed(Entries<?> iterator) {
        iterators.remove(iterator);
    }

    @Override
    public final void flush() {
        Db opened = db;
        if (opened != null) {
            run(opened::sync);
        }
        isUncommitted = false;
    }

    @Override
    public final synchronized void close() {
        isOpen = false;
        closing();
        Db opened = db;
        db = null;
        RuntimeException failed = null;
        for (Entries<?> iterator : iterators) {
            failed = after(failed, iterator::closeWithStore);
        }
        iterators.clear();
        if (opened != null) {
            failed = after(failed, opened::close);
            if (failed == null) {
                failed = after(null, this::noteClosed);
            }
        }
        if (failed != null) {
            throw new ProcessorStateException("store " + name + " cannot be closed", failed);
        }
    }

    private static RuntimeException after(RuntimeException failed, Runnable step) {
        try {
            step.run();
        } catch (RuntimeException error) {
            if (failed == null) {
                return error;
            }
            failed.addSuppressed(error);
        }
        return failed;
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
    public <R> QueryResult<R> query(
            Query<R> query, PositionBound bound, QueryConfig config) {
        return StoreQueryUtils.handleBasicQueries(query, bound, config, this, position, context);
    }
}
