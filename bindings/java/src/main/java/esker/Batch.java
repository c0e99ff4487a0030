package esker;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;

/**
 * Writes that {@link Db#write} applies together, also to several keyspaces. It is memory of Java and
 * need not be closed. One thread at once may use it.
 */
public final class Batch {
    private static final byte PUT = 0;
    private static final byte DELETE = 1;
    private static final byte DELETE_RANGE = 2;
    private static final byte MERGE = 3;
    private static final byte PUT_WITH_TTL = 4;

    private byte[] operations = new byte[256];
    private int length;
    private int size;
    private boolean sync;
    // Keeps the handles that the operations name.
    private final List<Keyspace> keyspaces = new ArrayList<>();

    /** Returns an empty batch. */
    public Batch() {}

    /** Sets {@code key} to {@code value}. */
    public Batch put(Keyspace keyspace, byte[] key, byte[] value) {
        return add(PUT, keyspace, key, value, 0);
    }

    /** Sets {@code key} to {@code value} for so many milliseconds. */
    public Batch put(Keyspace keyspace, byte[] key, byte[] value, long ttlMillis) {
        if (ttlMillis < 0) {
            throw new IllegalArgumentException("negative time to live");
        }
        return add(PUT_WITH_TTL, keyspace, key, value, ttlMillis);
    }

    /** Deletes {@code key}. */
    public Batch delete(Keyspace keyspace, byte[] key) {
        return add(DELETE, keyspace, key, new byte[0], 0);
    }

    /** Deletes the keys from {@code start} to before {@code end}; {@code null} is an open end. */
    public Batch deleteRange(Keyspace keyspace, byte[] start, byte[] end) {
        return add(DELETE_RANGE, keyspace, start, end, 0);
    }

    /** Merges {@code operand} into {@code key}. */
    public Batch merge(Keyspace keyspace, byte[] key, byte[] operand) {
        return add(MERGE, keyspace, key, operand, 0);
    }

    /** Whether the batch survives power loss once its write returns. */
    public Batch sync(boolean sync) {
        this.sync = sync;
        return this;
    }

    /** Returns the number of writes. */
    public int size() {
        return size;
    }

    /** Removes all writes. */
    public void clear() {
        length = 0;
        size = 0;
        keyspaces.clear();
    }

    void write(long db) {
        Calls.write(db, operations, length, sync);
        java.lang.ref.Reference.reachabilityFence(this);
    }

    private Batch add(byte operation, Keyspace keyspace, byte[] key, byte[] value, long ttl) {
        // All checks come before the first byte.
        Objects.requireNonNull(keyspace, "keyspace");
        if (operation != DELETE_RANGE && (key == null || value == null)) {
            throw new NullPointerException("key or value");
        }
        if (keyspaces.isEmpty() || keyspaces.get(keyspaces.size() - 1) != keyspace) {
            keyspaces.add(keyspace);
        }
        int keyLength = key == null ? 0 : key.length;
        int valueLength = value == null ? 0 : value.length;
        reserve(Math.addExact(25 + keyLength, valueLength));
        operations[length++] = operation;
        keyspace.run(this::number);
        number(key == null ? -1 : keyLength);
        number(value == null ? -1 : valueLength);
        if (operation == PUT_WITH_TTL) {
            number(ttl);
        }
        bytes(key);
        bytes(value);
        size++;
        return this;
    }

    private void reserve(int bytes) {
        int needed = Math.addExact(length, bytes);
        if (needed > operations.length) {
            int doubled = (int) Math.min(2L * operations.length, Integer.MAX_VALUE - 8);
            operations = Arrays.copyOf(operations, Math.max(needed, doubled));
        }
    }

    private void number(int value) {
        for (int shift = 24; shift >= 0; shift -= 8) {
            operations[length++] = (byte) (value >> shift);
        }
    }

    private void number(long value) {
        number((int) (value >> 32));
        number((int) value);
    }

    private void bytes(byte[] bytes) {
        if (bytes != null) {
            System.arraycopy(bytes, 0, operations, length, bytes.length);
            length += bytes.length;
        }
    }
}
