package esker.kafka;

import java.util.NoSuchElementException;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;

/** The versions of a key in order of time, without those that are null. */
final class Versions implements VersionedRecordIterator<byte[]> {
    private final Entries<byte[]> ended;
    private final long to;
    private final boolean isBackward;
    private VersionedRecord<byte[]> last;
    private VersionedRecord<byte[]> next;

    /**
     * Makes an iterator.
     *
     * @param ended the versions that end
     * @param last the version that does not, or {@code null}
     * @param to versions with a later timestamp are not returned
     */
    Versions(Entries<byte[]> ended, VersionedRecord<byte[]> last, long to, boolean isBackward) {
        this.ended = ended;
        this.last = last;
        this.to = to;
        this.isBackward = isBackward;
    }

    @Override
    public boolean hasNext() {
        if (next == null) {
            next = fetch();
        }
        return next != null;
    }

    private VersionedRecord<byte[]> fetch() {
        if (isBackward && last != null) {
            return takeLast();
        }
        while (ended.hasNext()) {
            KeyValue<byte[], byte[]> entry = ended.next();
            if (VersionedStore.timestamp(entry.value) <= to) {
                VersionedRecord<byte[]> record = VersionedStore.endedRecord(entry.key, entry.value);
                if (record != null) {
                    return record;
                }
            } else if (!isBackward) {
                // So have all that follow.
                break;
            }
        }
        return takeLast();
    }

    private VersionedRecord<byte[]> takeLast() {
        VersionedRecord<byte[]> taken = last;
        last = null;
        return taken;
    }

    @Override
    public VersionedRecord<byte[]> next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        VersionedRecord<byte[]> record = next;
        next = null;
        return record;
    }

    @Override
    public void close() {
        ended.close();
        last = null;
        next = null;
    }
}
