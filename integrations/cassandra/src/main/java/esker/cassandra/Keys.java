package esker.cassandra;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.UUID;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.utils.bytecomparable.ByteComparable;
import org.apache.cassandra.utils.bytecomparable.ByteSourceInverse;

/**
 * Keys of the keyspace {@code rows}: table (16 bytes), generation (8), partition, sequence (8).
 *
 * <p>The partition is in Cassandra's byte-comparable form: keys sort as partitions do, and the form
 * of a partition key is no prefix of another's.
 */
final class Keys {
    static final int TABLE = 16;
    static final int PREFIX = TABLE + Long.BYTES;

    private static final int PARTITION_BYTES = 64;

    private Keys() {}

    static byte[] table(TableId table) {
        UUID id = table.asUUID();
        return ByteBuffer.allocate(TABLE)
                .putLong(id.getMostSignificantBits())
                .putLong(id.getLeastSignificantBits())
                .array();
    }

    static TableId tableOf(byte[] key) {
        ByteBuffer bytes = ByteBuffer.wrap(key);
        return TableId.fromUUID(new UUID(bytes.getLong(), bytes.getLong()));
    }

    static long generationOf(byte[] key) {
        return ByteBuffer.wrap(key).getLong(TABLE);
    }

    static byte[] prefix(TableId table, long generation) {
        return ByteBuffer.allocate(PREFIX).put(table(table)).putLong(generation).array();
    }

    static byte[] partition(PartitionPosition position) {
        return ByteSourceInverse.readBytes(
                position.asComparableBytes(ByteComparable.Version.OSS50), PARTITION_BYTES);
    }

    static byte[] partitionOf(byte[] key) {
        return Arrays.copyOfRange(key, PREFIX, key.length - Long.BYTES);
    }

    static byte[] of(byte[] prefix, byte[] partition, long sequence) {
        return ByteBuffer.allocate(prefix.length + partition.length + Long.BYTES)
                .put(prefix)
                .put(partition)
                .putLong(sequence)
                .array();
    }

    static byte[] join(byte[] first, byte[] second) {
        byte[] both = Arrays.copyOf(first, first.length + second.length);
        System.arraycopy(second, 0, both, first.length, second.length);
        return both;
    }

    /**
     * Returns the first key after all keys that begin with {@code prefix}, which has a byte below
     * 0xFF.
     */
    static byte[] after(byte[] prefix) {
        int length = prefix.length;
        while (prefix[length - 1] == (byte) 0xFF) {
            length--;
        }
        byte[] end = Arrays.copyOf(prefix, length);
        end[length - 1]++;
        return end;
    }
}
