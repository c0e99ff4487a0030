package esker;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BOOLEAN;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicIntegerArray;

/**
 * The calls that programs make most often, over the Foreign Function and Memory API. All others are
 * rare, or take far longer than the way to the library, and use JNI on each Java: {@link Native}.
 *
 * <p>A call passes its bytes in a buffer outside the heap, and gets the answer there:
 * {@code native/src/foreign.rs} has the format. Whatever a buffer cannot take uses JNI: {@code null},
 * long keys and values, a call while another thread has the buffer.
 *
 * <p>The virtual machine cannot stop a thread in a critical call, so a garbage collection, and with it
 * every thread, waits for the call. Hence only {@link #DECODE} is critical:
 *
 * <ul>
 *   <li>Gets and scans may read from the device.
 *   <li>Writes may wait for the log, other writers, or compaction.
 *   <li>A get from memory alone may drop the last reference to a MemTable or table, whose file is then
 *       deleted.
 * </ul>
 */
final class Calls {
    private static final int BUFFER_BYTES = 4 << 10;
    /** A power of 2. Threads choose their buffer by their number. */
    private static final int BUFFERS =
            Integer.highestOneBit(
                    Math.clamp(4 * Runtime.getRuntime().availableProcessors(), 16, 256));
    /** Bytes from one flag to the next, so that they are in different cache lines: 64. */
    private static final int APART = 16;

    private static final MemorySegment MEMORY =
            Arena.global().allocate((long) BUFFERS * BUFFER_BYTES, 64);
    private static final AtomicIntegerArray IN_USE = new AtomicIntegerArray(BUFFERS * APART);

    // The numbers of native/src/foreign.rs.
    private static final int NOTHING = -1;
    private static final int ELSEWHERE = -2;
    private static final int FAILED = -3;

    private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;
    private static final ValueLayout.OfLong HANDLE =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

    static {
        Native.load();
    }

    /** Longer batches take too long to decode for a critical call, and cost little more by JNI. */
    private static final int DECODED_BYTES = 64 << 10;

    private static final MethodHandle GET = function("get", JAVA_LONG, JAVA_INT);
    private static final MethodHandle CONTAINS = function("contains", JAVA_LONG, JAVA_INT);
    private static final MethodHandle PUT = function("put", JAVA_LONG, JAVA_INT, JAVA_INT);
    private static final MethodHandle DELETE = function("delete", JAVA_LONG, JAVA_INT);
    private static final MethodHandle SNAPSHOT_GET =
            function("snapshot_get", JAVA_LONG, JAVA_LONG, JAVA_INT);
    private static final MethodHandle WRITE = function("write", JAVA_LONG, ADDRESS, JAVA_BOOLEAN);
    private static final MethodHandle SCAN =
            function(
                    "scan",
                    JAVA_LONG,
                    JAVA_LONG,
                    JAVA_INT,
                    JAVA_BOOLEAN,
                    JAVA_INT,
                    JAVA_BOOLEAN,
                    JAVA_BOOLEAN,
                    JAVA_INT);
    private static final MethodHandle FETCH =
            function("fetch", JAVA_LONG, JAVA_BOOLEAN, JAVA_INT);
    private static final MethodHandle FREE =
            downcall("free", FunctionDescriptor.ofVoid(ADDRESS));
    private static final MethodHandle DECODE =
            downcall(
                    "decode",
                    FunctionDescriptor.of(ADDRESS, ADDRESS, JAVA_INT),
                    Linker.Option.critical(true));

    private Calls() {}

    private static MethodHandle function(String name, MemoryLayout... arguments) {
        FunctionDescriptor descriptor =
                FunctionDescriptor.of(JAVA_LONG, arguments)
                        .appendArgumentLayouts(ADDRESS, JAVA_INT);
        return downcall(name, descriptor);
    }

    @SuppressWarnings("restricted")
    private static MethodHandle downcall(
            String name, FunctionDescriptor descriptor, Linker.Option... options) {
        MemorySegment symbol =
                SymbolLookup.loaderLookup().find("esker_java_" + name).orElseThrow();
        return Linker.nativeLinker().downcallHandle(symbol, descriptor, options);
    }

    /** Returns the interface that the calls use. */
    static String kind() {
        return "FFM";
    }

    static byte[] get(long keyspace, byte[] key) {
        int slot;
        if (key == null || key.length > BUFFER_BYTES || (slot = take()) < 0) {
            return Native.get(keyspace, key);
        }
        try {
            MemorySegment buffer = buffer(slot);
            MemorySegment.copy(key, 0, buffer, JAVA_BYTE, 0, key.length);
            return bytes(buffer, (long) GET.invokeExact(keyspace, key.length, buffer, BUFFER_BYTES));
        } catch (Throwable error) {
            throw thrown(error);
        } finally {
            give(slot);
        }
    }

    static boolean contains(long keyspace, byte[] key) {
        int slot;
        if (key == null || key.length > BUFFER_BYTES || (slot = take()) < 0) {
            return Native.contains(keyspace, key);
        }
        try {
            MemorySegment buffer = buffer(slot);
            MemorySegment.copy(key, 0, buffer, JAVA_BYTE, 0, key.length);
            return done(
                            buffer,
                            (long)
                                    CONTAINS.invokeExact(
                                            keyspace, key.length, buffer, BUFFER_BYTES))
                    != 0;
        } catch (Throwable error) {
            throw thrown(error);
        } finally {
            give(slot);
        }
    }

    static void put(long keyspace, byte[] key, byte[] value) {
        int slot;
        if (key == null
                || value == null
                || key.length > BUFFER_BYTES
                || value.length > BUFFER_BYTES - key.length
                || (slot = take()) < 0) {
            Native.put(keyspace, key, value);
            return;
        }
        try {
            MemorySegment buffer = buffer(slot);
            MemorySegment.copy(key, 0, buffer, JAVA_BYTE, 0, key.length);
            MemorySegment.copy(value, 0, buffer, JAVA_BYTE, key.length, value.length);
            done(
                    buffer,
                    (long)
                            PUT.invokeExact(
                                    keyspace, key.length, value.length, buffer, BUFFER_BYTES));
        } catch (Throwable error) {
            throw thrown(error);
        } finally {
            give(slot);
        }
    }

    static void delete(long keyspace, byte[] key) {
        int slot;
        if (key == null || key.length > BUFFER_BYTES || (slot = take()) < 0) {
            Native.delete(keyspace, key);
            return;
        }
        try {
            MemorySegment buffer = buffer(slot);
            MemorySegment.copy(key, 0, buffer, JAVA_BYTE, 0, key.length);
            done(
                    buffer,
                    (long) DELETE.invokeExact(keyspace, key.length, buffer, BUFFER_BYTES));
        } catch (Throwable error) {
            throw thrown(error);
        } finally {
            give(slot);
        }
    }

    static void write(long db, byte[] operations, int length, boolean sync) {
        int slot;
        if (length > DECODED_BYTES || (slot = take()) < 0) {
            Native.write(db, operations, length, sync);
            return;
        }
        try {
            MemorySegment buffer = buffer(slot);
            MemorySegment batch =
                    (MemorySegment) DECODE.invokeExact(MemorySegment.ofArray(operations), length);
            done(buffer, (long) WRITE.invokeExact(db, batch, sync, buffer, BUFFER_BYTES));
        } catch (Throwable error) {
            throw thrown(error);
        } finally {
            give(slot);
        }
    }

    static byte[] snapshotGet(long snapshot, long keyspace, byte[] key) {
        int slot;
        if (key == null || key.length > BUFFER_BYTES || (slot = take()) < 0) {
            return Native.snapshotGet(snapshot, keyspace, key);
        }
        try {
            MemorySegment buffer = buffer(slot);
            MemorySegment.copy(key, 0, buffer, JAVA_BYTE, 0, key.length);
            return bytes(
                    buffer,
                    (long)
                            SNAPSHOT_GET.invokeExact(
                                    snapshot, keyspace, key.length, buffer, BUFFER_BYTES));
        } catch (Throwable error) {
            throw thrown(error);
        } finally {
            give(slot);
        }
    }

    static byte[] scan(
            long keyspace,
            long snapshot,
            byte[] start,
            boolean startInclusive,
            byte[] end,
            boolean endInclusive,
            boolean backward,
            int maxBytes) {
        int startBytes = start == null ? 0 : start.length;
        int endBytes = end == null ? 0 : end.length;
        int slot;
        if (startBytes > BUFFER_BYTES
                || endBytes > BUFFER_BYTES - startBytes
                || (slot = take()) < 0) {
            return Native.scan(
                    keyspace,
                    snapshot,
                    start,
                    startInclusive,
                    end,
                    endInclusive,
                    backward,
                    maxBytes);
        }
        try {
            MemorySegment buffer = buffer(slot);
            if (start != null) {
                MemorySegment.copy(start, 0, buffer, JAVA_BYTE, 0, startBytes);
            }
            if (end != null) {
                MemorySegment.copy(end, 0, buffer, JAVA_BYTE, startBytes, endBytes);
            }
            return started(
                    buffer,
                    (long)
                            SCAN.invokeExact(
                                    keyspace,
                                    snapshot,
                                    start == null ? -1 : startBytes,
                                    startInclusive,
                                    end == null ? -1 : endBytes,
                                    endInclusive,
                                    backward,
                                    maxBytes,
                                    buffer,
                                    BUFFER_BYTES));
        } catch (Throwable error) {
            throw thrown(error);
        } finally {
            give(slot);
        }
    }

    static byte[] fetch(long scan, boolean backward, int maxBytes) {
        int slot = take();
        if (slot < 0) {
            return Native.fetch(scan, backward, maxBytes);
        }
        try {
            MemorySegment buffer = buffer(slot);
            return bytes(
                    buffer,
                    (long) FETCH.invokeExact(scan, backward, maxBytes, buffer, BUFFER_BYTES));
        } catch (Throwable error) {
            throw thrown(error);
        } finally {
            give(slot);
        }
    }

    /** Reserves the buffer of this thread. -1 if another thread with the same one is in a call. */
    private static int take() {
        int slot = (int) Thread.currentThread().threadId() & (BUFFERS - 1);
        return IN_USE.compareAndSet(slot * APART, 0, 1) ? slot : -1;
    }

    private static void give(int slot) {
        IN_USE.setRelease(slot * APART, 0);
    }

    private static MemorySegment buffer(int slot) {
        return MEMORY.asSlice((long) slot * BUFFER_BYTES, BUFFER_BYTES);
    }

    /** The bytes of an answer, or {@code null}. */
    private static byte[] bytes(MemorySegment buffer, long answer) throws Throwable {
        if (answer >= 0) {
            byte[] bytes = new byte[(int) answer];
            MemorySegment.copy(buffer, JAVA_BYTE, 0, bytes, 0, bytes.length);
            return bytes;
        }
        return answer == NOTHING ? null : elsewhere(buffer, answer);
    }

    /** As {@link #bytes}. Without memory for them, frees the scan whose handle they begin with. */
    private static byte[] started(MemorySegment buffer, long answer) throws Throwable {
        long scan = 0;
        if (answer >= 0) {
            scan = buffer.get(HANDLE, 0);
        } else if (answer == ELSEWHERE) {
            scan = bytesElsewhere(buffer).get(HANDLE, 0);
        }
        try {
            return bytes(buffer, answer);
        } catch (OutOfMemoryError error) {
            Native.freeScan(scan);
            throw error;
        }
    }

    private static long done(MemorySegment buffer, long answer) throws Throwable {
        if (answer < 0) {
            elsewhere(buffer, answer);
        }
        return answer;
    }

    /** Returns bytes in memory of the library, or throws what they say, and frees them. */
    private static byte[] elsewhere(MemorySegment buffer, long answer) throws Throwable {
        MemorySegment owner = MemorySegment.ofAddress(buffer.get(LONG, 16));
        byte[] bytes;
        try {
            bytes = bytesElsewhere(buffer).toArray(JAVA_BYTE);
        } finally {
            FREE.invokeExact(owner);
        }
        if (answer == ELSEWHERE) {
            return bytes;
        }
        String text = new String(bytes, StandardCharsets.UTF_8);
        throw switch ((int) (FAILED - answer)) {
            case 1 -> new ClosedException(text);
            case 2 -> new ConflictException(text);
            case 3 -> new IllegalArgumentException(text);
            case 4 -> new NullPointerException(text);
            default -> new EskerException(text);
        };
    }

    @SuppressWarnings("restricted")
    private static MemorySegment bytesElsewhere(MemorySegment buffer) {
        return MemorySegment.ofAddress(buffer.get(LONG, 0)).reinterpret(buffer.get(LONG, 8));
    }

    /** No call declares a checked exception. */
    private static RuntimeException thrown(Throwable error) {
        if (error instanceof Error other) {
            throw other;
        }
        return (RuntimeException) error;
    }
}
