package esker.cassandra;

import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * Inserts and reads rows of {@code k.t (p bigint PRIMARY KEY, v blob)}, with a fixed number of
 * requests in flight.
 *
 * <p>Client and node share the processors, so the client is small: one thread a connection, which
 * answers each response with the next request. It speaks version 4 of the binary protocol.
 */
final class Load implements AutoCloseable {
    private static final int CONNECTIONS = 4;
    private static final int INSERT = 0;
    private static final int READ = 1;
    private static final List<String> STATEMENTS =
            List.of("INSERT INTO k.t (p, v) VALUES (?, ?)", "SELECT v FROM k.t WHERE p = ?");

    private static final int STARTUP = 0x01;
    private static final int PREPARE = 0x09;
    private static final int EXECUTE = 0x0A;
    private static final int ERROR = 0x00;
    private static final int VERSION = 0x04;
    private static final int HEADER = 9;
    private static final int HEADER_LENGTH_AT = 5;
    private static final int LOCAL_ONE = 0x0A;
    private static final byte WITH_VALUES = 0x01;

    private static final int BUFFER = 1 << 20;

    private final int bytes;
    private final int readPercent;
    private final List<Connection> connections = new ArrayList<>();
    private final ExecutorService threads = Executors.newFixedThreadPool(CONNECTIONS);

    /** How long requests took, and over which time they were answered. */
    record Result(long requests, double seconds, int[] sortedMicros) {
        double rate() {
            return requests / seconds;
        }

        double millis(double quantile) {
            return sortedMicros[(int) ((sortedMicros.length - 1) * quantile)] / 1e3;
        }
    }

    /** Connects to {@code node}, which has the table. */
    Load(Node node, int inFlight, int bytes, int readPercent) throws IOException {
        this.bytes = bytes;
        this.readPercent = readPercent;
        for (int number = 0; number < CONNECTIONS; number++) {
            int streams = (inFlight + number) / CONNECTIONS;
            if (streams > 0) {
                connections.add(new Connection(node, number, streams));
            }
        }
    }

    /** Runs for so many seconds. A rate of 0 has no limit. */
    Result run(int seconds, int requestsPerSecond) throws Exception {
        long start = System.nanoTime();
        long end = start + TimeUnit.SECONDS.toNanos(seconds);
        double nanosEach =
                requestsPerSecond == 0 ? 0 : 1e9 * connections.size() / requestsPerSecond;
        List<Future<int[]>> running = new ArrayList<>();
        for (Connection connection : connections) {
            Callable<int[]> call = () -> connection.run(end, nanosEach);
            running.add(threads.submit(call));
        }
        List<int[]> parts = new ArrayList<>();
        for (Future<int[]> part : running) {
            parts.add(part.get());
        }
        double taken = (System.nanoTime() - start) / 1e9;
        int[] all = parts.stream().flatMapToInt(Arrays::stream).sorted().toArray();
        return new Result(all.length, taken, all);
    }

    @Override
    public void close() throws IOException {
        threads.shutdown();
        for (Connection connection : connections) {
            connection.channel.close();
        }
    }

    /** A well spread key for each number. */
    private static long key(long number) {
        long mixed = (number ^ number >>> 30) * 0xBF58476D1CE4E5B9L;
        mixed = (mixed ^ mixed >>> 27) * 0x94D049BB133111EBL;
        return mixed ^ mixed >>> 31;
    }

    private final class Connection {
        private final SocketChannel channel;
        private final ByteBuffer in = ByteBuffer.allocateDirect(BUFFER).flip();
        private final ByteBuffer out = ByteBuffer.allocateDirect(BUFFER);
        private final byte[][] statements = new byte[STATEMENTS.size()][];
        private final SplittableRandom random;
        private final byte[] value = new byte[bytes];
        private final long[] begun;
        private final long firstKey;
        private long written;

        Connection(Node node, int number, int streams) throws IOException {
            begun = new long[streams];
            firstKey = (long) (number + 1) << 40;
            random = new SplittableRandom(number);
            channel = SocketChannel.open(new InetSocketAddress(node.address(), Node.CQL_PORT));
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            int at = begin(STARTUP, 0);
            out.putShort((short) 1);
            text("CQL_VERSION");
            text("3.0.0");
            end(at);
            receive();
            for (int i = 0; i < statements.length; i++) {
                byte[] statement = STATEMENTS.get(i).getBytes(StandardCharsets.UTF_8);
                at = begin(PREPARE, 0);
                out.putInt(statement.length).put(statement);
                end(at);
                receive();
                // After the kind of the result comes the ID.
                in.getInt();
                statements[i] = new byte[in.getShort()];
                in.get(statements[i]);
                in.position(next);
            }
        }

        /** Where the response that was received ends. */
        private int next;

        private int begin(int operation, int stream) {
            int at = out.position();
            out.put((byte) VERSION).put((byte) 0).putShort((short) stream).put((byte) operation);
            out.putInt(0);
            return at;
        }

        private void end(int at) {
            out.putInt(at + HEADER_LENGTH_AT, out.position() - at - HEADER);
        }

        private void text(String text) {
            byte[] encoded = text.getBytes(StandardCharsets.UTF_8);
            out.putShort((short) encoded.length).put(encoded);
        }

        private void flush() throws IOException {
            out.flip();
            while (out.hasRemaining()) {
                channel.write(out);
            }
            out.clear();
        }

        private void require(int length) throws IOException {
            if (in.remaining() >= length) {
                return;
            }
            flush();
            in.compact();
            while (in.position() < length) {
                if (channel.read(in) < 0) {
                    throw new EOFException("the node closed the connection");
                }
            }
            in.flip();
        }

        /** Reads the header of a response, and returns its stream. */
        private int receive() throws IOException {
            require(HEADER);
            in.getShort();
            int stream = in.getShort();
            int operation = in.get();
            int length = in.getInt();
            require(length);
            next = in.position() + length;
            if (operation == ERROR) {
                in.getInt();
                byte[] message = new byte[in.getShort()];
                in.get(message);
                throw new IOException(new String(message, StandardCharsets.UTF_8));
            }
            return stream;
        }

        private void request(int stream) {
            begun[stream] = System.nanoTime();
            boolean isRead = written > begun.length && random.nextInt(100) < readPercent;
            int at = begin(EXECUTE, stream);
            byte[] statement = statements[isRead ? READ : INSERT];
            out.putShort((short) statement.length).put(statement);
            out.putShort((short) LOCAL_ONE).put(WITH_VALUES).putShort((short) (isRead ? 1 : 2));
            out.putInt(Long.BYTES);
            if (isRead) {
                // The last ones may not be there yet.
                out.putLong(key(firstKey + random.nextLong(written - begun.length)));
            } else {
                out.putLong(key(firstKey + written++));
                random.nextBytes(value);
                out.putInt(bytes).put(value);
            }
            end(at);
        }

        int[] run(long end, double nanosEach) throws IOException {
            int[] micros = new int[1 << 16];
            int count = 0;
            long start = System.nanoTime();
            long sent = 0;
            for (int stream = 0; stream < begun.length; stream++) {
                request(stream);
                sent++;
            }
            for (int waiting = begun.length; waiting > 0; waiting--) {
                int stream = receive();
                in.position(next);
                long now = System.nanoTime();
                if (count == micros.length) {
                    micros = Arrays.copyOf(micros, 2 * count);
                }
                micros[count++] = (int) ((now - begun[stream]) / 1000);
                if (now < end) {
                    long early = (long) (start + sent * nanosEach) - now;
                    if (early > 0) {
                        flush();
                        Node.pause(TimeUnit.NANOSECONDS.toMillis(early));
                    }
                    request(stream);
                    sent++;
                    waiting++;
                }
            }
            return Arrays.copyOf(micros, count);
        }
    }
}
