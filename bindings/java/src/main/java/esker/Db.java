package esker;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;

/**
 * An open database: a directory of keyspaces. Threads may share it.
 *
 * <pre>{@code
 * try (Db db = Db.open(Path.of("data"))) {
 *     Keyspace users = db.keyspace("users");
 *     users.put("ada".getBytes(), "analyst".getBytes());
 * }
 * }</pre>
 */
public final class Db extends Handle {
    private static final int CREATE = 0;
    private static final int EXISTING = 1;
    private static final int READ_ONLY = 2;
    private static final int ATTEMPTS = 100;
    private static final long PAUSE_NANOS_MOST = 5_000_000;

    private Db(long id) {
        super("database", id, Native::close);
    }

    private static Db open(Path dir, Settings settings, int mode) {
        String path = dir.toAbsolutePath().toString();
        return new Db(
                settings.withResources(shared -> Native.open(path, settings.array(), shared, mode)));
    }

    /** Opens the database in {@code dir}, or creates it. */
    public static Db open(Path dir) {
        return open(dir, new Settings());
    }

    /** Opens the database in {@code dir}, or creates it. */
    public static Db open(Path dir, Settings settings) {
        return open(dir, settings, CREATE);
    }

    /** Opens the database in {@code dir}, which must exist. */
    public static Db openExisting(Path dir, Settings settings) {
        return open(dir, settings, EXISTING);
    }

    /** Opens the database in {@code dir} for reading, at its present state. */
    public static Db openReadOnly(Path dir, Settings settings) {
        return open(dir, settings, READ_ONLY);
    }

    /** Returns the keyspace {@code name}, which is created if it does not exist. */
    public Keyspace keyspace(String name) {
        return keyspace(name, new Settings());
    }

    /** Returns the keyspace {@code name}, which is created with {@code settings} if it does not exist. */
    public Keyspace keyspace(String name, Settings settings) {
        return call(id -> new Keyspace(name, Native.keyspace(id, checked(name), settings.array(), true)));
    }

    /** Returns the keyspace {@code name}, which must exist. */
    public Keyspace openKeyspace(String name) {
        return call(id -> new Keyspace(name, Native.keyspace(id, checked(name), new String[0], false)));
    }

    /** Returns the keyspace that each database has. */
    public Keyspace defaultKeyspace() {
        return call(id -> new Keyspace("default", Native.defaultKeyspace(id)));
    }

    /** Returns the names of all keyspaces. */
    public List<String> keyspaces() {
        return call(id -> List.of(Native.keyspaces(id)));
    }

    /** Drops a keyspace with all its entries. */
    public void drop(Keyspace keyspace) {
        run(id -> keyspace.run(of -> Native.dropKeyspace(id, of)));
    }

    /** Applies {@code batch} atomically. */
    public void write(Batch batch) {
        run(batch::write);
    }

    /** Returns a consistent view of all keyspaces. Close it. */
    public Snapshot snapshot() {
        return call(id -> new Snapshot(Native.snapshot(id)));
    }

    /** Begins a pessimistic transaction with snapshot isolation. Close it. */
    public Transaction begin() {
        return begin(Transaction.Isolation.SNAPSHOT, Transaction.Concurrency.PESSIMISTIC);
    }

    /** Begins a transaction. Close it. */
    public Transaction begin(
            Transaction.Isolation isolation, Transaction.Concurrency concurrency) {
        boolean isOptimistic = concurrency == Transaction.Concurrency.OPTIMISTIC;
        return call(
                id -> new Transaction(Native.begin(id, isolation.ordinal(), isOptimistic, 0)));
    }

    /** Runs {@code work} in a transaction and commits. After a conflict, runs it again. */
    public <T> T transact(Function<Transaction, T> work) {
        for (int attempt = 1; ; attempt++) {
            try (Transaction transaction = begin()) {
                T result = work.apply(transaction);
                transaction.commit();
                return result;
            } catch (ConflictException conflict) {
                if (attempt == ATTEMPTS) {
                    throw conflict;
                }
                pause(attempt);
            }
        }
    }

    /** Lets others go on. Two that conflict would otherwise meet again. */
    private static void pause(int attempt) {
        long most = Math.min(PAUSE_NANOS_MOST, 100_000L << Math.min(attempt, 10));
        LockSupport.parkNanos(ThreadLocalRandom.current().nextLong(most));
    }

    /** A name without a surrogate of its own, which would be stored as another character. */
    private static String checked(String name) {
        if (!StandardCharsets.UTF_8.newEncoder().canEncode(name)) {
            throw new IllegalArgumentException("the name of the keyspace is no valid text");
        }
        return name;
    }

    /** Writes a copy of the database, at this point in time, into {@code dir}, which must be missing. */
    public void checkpoint(Path dir) {
        run(id -> Native.checkpoint(id, dir.toAbsolutePath().toString()));
    }

    /** Writes what is in memory to tables. */
    public void flush() {
        run(Native::flush);
    }

    /** Makes all acknowledged writes survive power loss. */
    public void sync() {
        run(Native::sync);
    }

    /** Returns the most important statistics as text for people. */
    public String stats() {
        return call(Native::stats);
    }

    /** Returns all statistics as a page for Prometheus. {@code name} is the label of the database. */
    public String prometheus(String name) {
        return call(id -> Native.prometheus(id, name));
    }

    /** Returns how many bytes the database uses on its storage. */
    public long usedBytes() {
        return call(Native::usedBytes);
    }
}
