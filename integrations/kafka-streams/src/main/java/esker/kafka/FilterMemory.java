package esker.kafka;

import java.util.concurrent.atomic.AtomicLong;

/** The memory that the filters of all stores may use together. */
final class FilterMemory {
    private final AtomicLong free;

    FilterMemory(long bytes) {
        free = new AtomicLong(bytes);
    }

    /** Takes memory, or returns false if there is too little. */
    boolean take(long bytes) {
        if (free.addAndGet(-bytes) >= 0) {
            return true;
        }
        give(bytes);
        return false;
    }

    void give(long bytes) {
        free.addAndGet(bytes);
    }
}
