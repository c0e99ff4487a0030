package esker.kafka;

import esker.Keyspace;

/**
 * A segment of time.
 *
 * @param keys which keys it may have, or {@code null} if an earlier open of the store made it
 */
record Segment(Keyspace entries, KeyFilter keys) {
    boolean mayHave(byte[] key) {
        return keys == null || keys.mayHave(key);
    }

    /** Notes that an entry of the key in the first {@code length} bytes is about to be written. */
    void willHave(byte[] bytes, int length) {
        if (keys != null) {
            keys.add(bytes, length);
        }
    }

    /** Frees the memory of the filter, which is not needed any more. */
    void forget() {
        if (keys != null) {
            keys.giveUp();
        }
    }
}
