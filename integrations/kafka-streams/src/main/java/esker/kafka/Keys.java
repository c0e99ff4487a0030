package esker.kafka;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * Keys of segments: the key, so that none is the beginning of another, then two numbers. A zero byte of
 * the key becomes 00 FF, and 00 01 ends it. So entries sort by key, then by the numbers.
 */
final class Keys {
    private static final int SUFFIX = 2 * Long.BYTES;

    private Keys() {}

    static byte[] encode(byte[] key, long first, long second) {
        byte[] prefix = prefix(key);
        return ByteBuffer.allocate(prefix.length + SUFFIX)
                .put(prefix)
                .putLong(first)
                .putLong(second)
                .array();
    }

    private static byte[] prefix(byte[] key) {
        ByteArrayOutputStream out = new ByteArrayOutputStream(key.length + 2);
        for (byte b : key) {
            out.write(b);
            if (b == 0) {
                out.write(0xFF);
            }
        }
        out.write(0);
        out.write(1);
        return out.toByteArray();
    }

    static byte[] key(byte[] encoded) {
        byte[] key = new byte[encoded.length];
        int length = 0;
        for (int at = 0; at < encoded.length - SUFFIX - 2; at++) {
            key[length++] = encoded[at];
            if (encoded[at] == 0) {
                at++;
            }
        }
        return Arrays.copyOf(key, length);
    }

    static long first(byte[] encoded) {
        return ByteBuffer.wrap(encoded).getLong(encoded.length - SUFFIX);
    }

    static long second(byte[] encoded) {
        return ByteBuffer.wrap(encoded).getLong(encoded.length - Long.BYTES);
    }
}
