package esker;

/** Memory and background threads that databases share: see {@link Settings#resources}. */
public final class Resources extends Handle {
    /**
     * Makes resources. They live until this is closed, and all databases that use them are.
     *
     * @param memoryBytes the budget of MemTables and caches of all databases together
     * @param backgroundThreads the number of threads for flushes and compactions
     */
    public Resources(long memoryBytes, int backgroundThreads) {
        super(
                "resources",
                Native.resources(memoryBytes, backgroundThreads),
                Native::freeResources);
    }

    /** Returns how many bytes of the budget are in use. */
    public long chargedBytes() {
        return call(Native::chargedBytes);
    }
}
