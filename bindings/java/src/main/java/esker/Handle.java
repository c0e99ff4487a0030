package esker;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;

/**
 * Something of the native library. Close it when it is no longer needed. If it becomes unreachable
 * without that, it is freed then, and {@link Leaks} reports it.
 *
 * <p>Closing twice is allowed. A call of something that is closed throws {@link ClosedException}.
 */
public abstract class Handle implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();

    private final State state;
    private final Cleaner.Cleanable cleanable;

    Handle(String kind, long id, LongConsumer free) {
        state = new State(kind, id, free, kind == null ? null : Leaks.trace());
        cleanable = CLEANER.register(this, state);
    }

    @Override
    public void close() {
        state.closed = true;
        cleanable.clean();
    }

    /** Calls the library. The garbage collector does not free this meanwhile. */
    final <T> T call(LongFunction<T> call) {
        try {
            return call.apply(state.id);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    final void run(LongConsumer call) {
        try {
            call.accept(state.id);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** What frees the handle. It must not refer to it. */
    private static final class State implements Runnable {
        /** {@code null} if it need not be closed. */
        private final String kind;

        private final long id;
        private final LongConsumer free;
        private final Throwable trace;
        private volatile boolean closed;

        State(String kind, long id, LongConsumer free, Throwable trace) {
            this.kind = kind;
            this.id = id;
            this.free = free;
            this.trace = trace;
        }

        @Override
        public void run() {
            if (!closed && kind != null) {
                Leaks.report(kind, trace);
            }
            free.accept(id);
        }
    }
}
