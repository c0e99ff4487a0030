package esker.cassandra;

import esker.Pool;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.cassandra.config.DataStorageSpec;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The pool of persistent memory that has the log of a node's database.
 *
 * @param bytes its size, or 0 if the configuration does not say
 */
record PoolFile(Pool pool, long bytes) {
    private static final Logger LOGGER = LoggerFactory.getLogger(PoolFile.class);

    private static final String FILE = "pool";
    private static final String SIZE = "pool_size";
    private static final String EMULATED = "pool_emulated";

    /** Takes the parameters of a pool out of {@code options}; {@code null} if there is none. */
    static PoolFile take(Map<String, String> options) {
        String file = options.remove(FILE);
        String size = options.remove(SIZE);
        String emulated = options.remove(EMULATED);
        if (file == null) {
            if (size != null || emulated != null) {
                throw invalid((size != null ? SIZE : EMULATED) + " is given without " + FILE);
            }
            return null;
        }
        if (options.containsKey("log")) {
            throw invalid("both log and " + FILE + " are given");
        }
        if (emulated != null && !emulated.equals("true") && !emulated.equals("false")) {
            throw invalid(EMULATED + " is \"" + emulated + "\", and must be true or false");
        }
        Path path = Path.of(file).toAbsolutePath().normalize();
        return new PoolFile(new Pool(path, "true".equals(emulated)), bytes(size));
    }

    private static long bytes(String size) {
        try {
            return size == null ? 0 : new DataStorageSpec.LongBytesBound(size).toBytes();
        } catch (IllegalArgumentException error) {
            throw invalid(SIZE + " is \"" + size + "\"; write a size such as 4GiB");
        }
    }

    private static ConfigurationException invalid(String what) {
        return new ConfigurationException(
                "configuring Esker's memtable failed: " + what + "; correct cassandra.yaml");
    }

    private Path file() {
        return pool.file();
    }

    /** Returns the size of the file, or what a new one would have. */
    long bytesOrDefault() {
        try {
            if (Files.exists(file())) {
                return Files.size(file());
            }
            return bytes > 0 ? bytes : Memory.poolBytes();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /**
     * Creates the file if the database in {@code dir} is new.
     *
     * @throws IllegalStateException if the size of the file is not that of the configuration
     */
    void prepare(Path dir) throws IOException {
        if (Files.exists(file())) {
            long present = Files.size(file());
            if (bytes > 0 && present != bytes) {
                throw new IllegalStateException(
                        "the pool "
                                + file()
                                + " has "
                                + present
                                + " bytes, and "
                                + SIZE
                                + " in cassandra.yaml says "
                                + bytes
                                + "; set it to "
                                + present
                                + "B, or, if the file was cut, restore it from a copy");
            }
        } else if (!hasFiles(dir)) {
            pool.create(bytesOrDefault());
            LOGGER.info("created the pool {} of {} bytes", file(), Files.size(file()));
        }
        if (pool.isEmulated()) {
            LOGGER.warn(
                    "the pool {} is emulated persistent memory: acknowledged writes survive a kill"
                            + " of this process, but no power loss",
                    file());
        }
    }

    private static boolean hasFiles(Path dir) throws IOException {
        if (!Files.exists(dir)) {
            return false;
        }
        try (Stream<Path> files = Files.list(dir)) {
            return files.findAny().isPresent();
        }
    }
}
