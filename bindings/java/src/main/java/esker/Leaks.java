package esker;

import java.util.concurrent.atomic.AtomicLong;

/**
 * Counts what was not closed. Each is a warning of the logger {@code esker}. With the property
 * {@code esker.leaks=trace} the warning has the place where it was made, which costs time.
 */
public final class Leaks {
    private static final AtomicLong COUNT = new AtomicLong();
    private static final boolean TRACED = "trace".equals(System.getProperty("esker.leaks"));

    private Leaks() {}

    /** Returns how many databases, snapshots, iterators and transactions were not closed so far. */
    public static long count() {
        return COUNT.get();
    }

    static Throwable trace() {
        return TRACED ? new Throwable("it was made here") : null;
    }

    static void report(String kind, Throwable trace) {
        COUNT.incrementAndGet();
        String text = "left open: " + kind + "; close it, or use try with resources";
        System.getLogger("esker").log(System.Logger.Level.WARNING, text, trace);
    }
}
