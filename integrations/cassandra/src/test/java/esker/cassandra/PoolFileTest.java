package esker.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.junit.jupiter.api.Test;

/** The parameters of a pool. */
class PoolFileTest {
    private static PoolFile take(Map<String, String> parameters) {
        return PoolFile.take(new HashMap<>(parameters));
    }

    private static void assertRefused(String says, Map<String, String> parameters) {
        Exception error =
                assertThrows(ConfigurationException.class, () -> take(parameters), says);
        assertTrue(error.getMessage().contains(says), error.getMessage());
    }

    @Test
    void parametersOfAPoolAreTaken() {
        Map<String, String> all =
                new HashMap<>(Map.of("pool", "/mnt/pmem/a", "pool_size", "2GiB", "sync", "os"));
        PoolFile pool = PoolFile.take(all);
        assertEquals(2L << 30, pool.bytes());
        assertEquals("/mnt/pmem/a", pool.pool().file().toString());
        assertEquals(Map.of("sync", "os"), all);
        assertNull(take(Map.of("sync", "os")));
        assertTrue(take(Map.of("pool", "/a", "pool_emulated", "true")).pool().isEmulated());
    }

    @Test
    void parametersThatMeanNothingAreRefused() {
        assertRefused("pool_size is given without pool", Map.of("pool_size", "1GiB"));
        assertRefused("pool_emulated is given without pool", Map.of("pool_emulated", "true"));
        assertRefused("both log and pool", Map.of("pool", "/a", "log", "files"));
        assertRefused("\"yes\"", Map.of("pool", "/a", "pool_emulated", "yes"));
        assertRefused("\"1 apple\"", Map.of("pool", "/a", "pool_size", "1 apple"));
    }
}
