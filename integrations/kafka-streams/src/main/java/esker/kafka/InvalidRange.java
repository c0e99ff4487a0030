package esker.kafka;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.internals.InMemoryKeyValueStore;

/** Ranges of keys whose start is after their end. They are empty, and Kafka's stores warn of them. */
final class InvalidRange {
    private static final InMemoryKeyValueStore EMPTY = new InMemoryKeyValueStore("empty");

    private InvalidRange() {}

    /** Lets a store of Kafka log its warning. */
    static void warn(Bytes from, Bytes to) {
        if (from != null && to != null && from.compareTo(to) > 0) {
            EMPTY.range(from, to).close();
        }
    }
}
