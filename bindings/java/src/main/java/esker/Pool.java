package esker;

import java.nio.file.Path;

/**
 * A file of persistent memory that holds the log, and so the MemTables, of one database.
 *
 * <p>A pool that is emulated is a file on tmpfs, such as in {@code /dev/shm}. It survives the
 * process, but not a power loss.
 */
public record Pool(Path file, boolean isEmulated) {
    /** Creates the file, which must be missing, with all its blocks. */
    public Pool create(long bytes) {
        Native.createPool(path(), bytes, isEmulated);
        return this;
    }

    /** Returns the value of the setting {@code log}. */
    String log() {
        return (isEmulated ? "emulated-pmem:" : "pmem:") + path();
    }

    private String path() {
        return file.toAbsolutePath().toString();
    }
}
