package esker;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.function.IntConsumer;

/**
 * Times calls by JNI and by {@link Calls}, in turns, in nanoseconds. The data fits the MemTable. The
 * jar must come first on the class path, on Java 22 or later:
 *
 * <pre>
 * java -cp target/esker-0.1.0.jar:target/test-classes esker.CallTimes NEW-DIRECTORY
 * </pre>
 */
final class CallTimes {
    private static final int KEYS = 100_000;
    private static final int CALLS = 40_000;
    private static final int WARM = 5;
    private static final int ROUNDS = 11;

    private CallTimes() {}

    public static void main(String[] arguments) {
        byte[][] keys = new byte[KEYS][];
        for (int i = 0; i < KEYS; i++) {
            keys[i] = String.format("%016d", i * 7919L % KEYS).getBytes();
        }
        byte[] value = new byte[100];
        Settings settings = new Settings().set("memory_bytes", "1GiB").set("segment_bytes", "256MiB");
        try (Db db = Db.open(Path.of(arguments[0]), settings)) {
            Keyspace keyspace = db.keyspace("times");
            for (byte[] key : keys) {
                keyspace.put(key, value);
            }
            System.out.println("nanoseconds: JNI best, median; " + Calls.kind() + " best, median");
            long id = keyspace.call(of -> of);
            time("get", i -> Native.get(id, keys[i]), i -> Calls.get(id, keys[i]));
            time("get nothing", i -> Native.get(id, value), i -> Calls.get(id, value));
            time("contains", i -> Native.contains(id, keys[i]), i -> Calls.contains(id, keys[i]));
            time("put", i -> Native.put(id, keys[i], value), i -> Calls.put(id, keys[i], value));
            time(
                    "scan of 1",
                    i -> Native.scan(id, 0, keys[i], true, keys[i], true, false, 4096),
                    i -> Calls.scan(id, 0, keys[i], true, keys[i], true, false, 4096));
            for (int size : new int[] {1, 10, 100, 400}) {
                byte[] batch = new byte[size * 133];
                ByteBuffer out = ByteBuffer.wrap(batch);
                for (int i = 0; i < size; i++) {
                    out.put((byte) 0).putLong(id).putInt(16).putInt(100).put(keys[i]).put(value);
                }
                long of = db.call(number -> number);
                time(
                        "put in a batch of " + size,
                        i -> {
                            if (i % size == 0) {
                                Native.write(of, batch, batch.length, false);
                            }
                        },
                        i -> {
                            if (i % size == 0) {
                                Calls.write(of, batch, batch.length, false);
                            }
                        });
            }
            Reference.reachabilityFence(keyspace);
        }
    }

    private static void time(String name, IntConsumer... calls) {
        double[][] nanos = new double[calls.length][ROUNDS];
        for (int round = -WARM; round < ROUNDS; round++) {
            for (int kind = 0; kind < calls.length; kind++) {
                long start = System.nanoTime();
                for (int i = 0; i < CALLS; i++) {
                    calls[kind].accept(i);
                }
                if (round >= 0) {
                    nanos[kind][round] = (System.nanoTime() - start) / (double) CALLS;
                }
            }
        }
        System.out.printf("%-22s", name);
        for (double[] of : nanos) {
            Arrays.sort(of);
            System.out.printf(" %8.0f %8.0f", of[0], of[ROUNDS / 2]);
        }
        System.out.println();
    }
}
