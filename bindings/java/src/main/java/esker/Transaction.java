package esker;

/**
 * Reads and writes of all keyspaces that commit together or not at all. Closing it rolls back. After a
 * {@link ConflictException}, run the whole again, or let {@link Db#transact} do it. One thread at once
 * may use it.
 */
public final class Transaction extends Handle {
    /** What a transaction sees of others. */
    public enum Isolation {
        /** Each read sees what is committed when it is made. */
        READ_COMMITTED,
        /** All reads see one snapshot. The default. */
        SNAPSHOT,
        /** The outcome is that of some serial order. */
        SERIALIZABLE
    }

    /** How conflicts are detected. */
    public enum Concurrency {
        /** Writes lock their keys. The default. */
        PESSIMISTIC,
        /** The commit checks. */
        OPTIMISTIC
    }

    Transaction(long id) {
        super("transaction", id, Native::freeTransaction);
    }

    /** Returns the value of {@code key}, own writes included, or {@code null}. */
    public byte[] get(Keyspace keyspace, byte[] key) {
        return call(id -> keyspace.call(of -> Native.transactionGet(id, of, key, false)));
    }

    /** Reads as {@link #get} does, and excludes that others change {@code key} before the commit. */
    public byte[] getForUpdate(Keyspace keyspace, byte[] key) {
        return call(id -> keyspace.call(of -> Native.transactionGet(id, of, key, true)));
    }

    /** Sets {@code key} to {@code value}. */
    public void put(Keyspace keyspace, byte[] key, byte[] value) {
        run(id -> keyspace.run(of -> Native.transactionPut(id, of, key, value)));
    }

    /** Deletes {@code key}. */
    public void delete(Keyspace keyspace, byte[] key) {
        run(id -> keyspace.run(of -> Native.transactionDelete(id, of, key)));
    }

    /** Returns the entries of {@code range}, own writes included. Each chunk sees the writes before it. */
    public Scan scan(Keyspace keyspace, Range range) {
        return new OfTransaction(keyspace, range);
    }

    /** Sets a savepoint. Savepoints nest. */
    public void setSavepoint() {
        run(Native::setSavepoint);
    }

    /** Undoes all writes since the last savepoint, and removes it. */
    public void rollbackToSavepoint() {
        run(Native::rollbackToSavepoint);
    }

    /** Commits. The transaction has ended then, also after an exception. */
    public void commit() {
        run(Native::commit);
    }

    /** Discards all writes. */
    public void rollback() {
        run(Native::rollback);
    }

    private final class OfTransaction extends Scan {
        private final Keyspace keyspace;
        private Range rest;

        OfTransaction(Keyspace keyspace, Range range) {
            this.keyspace = keyspace;
            this.rest = range;
        }

        @Override
        byte[] fetch(int maxBytes) {
            if (rest.isEmpty()) {
                return null;
            }
            return call(id -> keyspace.call(of -> fetch(id, of, maxBytes)));
        }

        private byte[] fetch(long transaction, long of, int maxBytes) {
            return Native.transactionFetch(
                    transaction,
                    of,
                    rest.start,
                    rest.startInclusive,
                    rest.end,
                    rest.endInclusive,
                    rest.isBackward,
                    maxBytes);
        }

        @Override
        public Entry next() {
            Entry entry = super.next();
            rest = rest.after(entry.key());
            return entry;
        }
    }
}
