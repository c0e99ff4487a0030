package esker.cassandra;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.DeserializationHelper;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIteratorSerializer;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.apache.cassandra.net.MessagingService;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.vint.VIntCoding;

/**
 * Values of the keyspace {@code rows}: our format (1 byte), the version of Cassandra's messages
 * (1), and the update as Cassandra sends it to another node, which names its columns.
 */
final class Updates {
    private static final byte FORMAT = 1;
    private static final int HEADER = 2;
    private static final int SLACK_BYTES = 128;

    private Updates() {}

    static byte[] write(PartitionUpdate update) {
        int version = MessagingService.current_version;
        try (DataOutputBuffer out = new DataOutputBuffer(update.dataSize() + SLACK_BYTES);
                UnfilteredRowIterator rows = update.unfilteredIterator()) {
            out.writeByte(FORMAT);
            out.writeByte(version);
            UnfilteredRowIteratorSerializer.serializer.serialize(
                    rows, null, out, version, update.rowCount());
            return out.toByteArray();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Reads under the present schema: columns that were dropped since are skipped. */
    static PartitionUpdate read(TableMetadata table, byte[] value) {
        if (value.length < HEADER || value[0] != FORMAT) {
            throw new IllegalStateException("its format is unknown");
        }
        try (DataInputBuffer in = new DataInputBuffer(value, HEADER, value.length - HEADER);
                UnfilteredRowIterator rows =
                        UnfilteredRowIteratorSerializer.serializer.deserialize(
                                in, value[1], table, null, DeserializationHelper.Flag.LOCAL)) {
            return PartitionUpdate.fromIterator(rows, ColumnFilter.all(table));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Returns the length of the partition key that {@code value} begins with. */
    static int partitionKeyLength(byte[] value) {
        return VIntCoding.getUnsignedVInt32(ByteBuffer.wrap(value), HEADER);
    }
}
