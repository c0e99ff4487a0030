package esker.kafka;

import esker.Resources;
import java.util.HashMap;
import java.util.Map;

/** The memory and threads that all stores of the process with the same configuration share. */
final class Shared {
    private static final String MEMORY_BYTES = String.valueOf(256L << 20);
    private static final String BACKGROUND_THREADS = "2";

    // They live as long as the process: stores come and go as partitions are assigned.
    private static final Map<String, Resources> RESOURCES = new HashMap<>();

    private final String memory;
    private final String threads;

    Shared(Map<String, ?> configs) {
        memory = text(configs, EskerDslStoreSuppliers.MEMORY_BYTES, MEMORY_BYTES);
        threads = text(configs, EskerDslStoreSuppliers.BACKGROUND_THREADS, BACKGROUND_THREADS);
    }

    private static String text(Map<String, ?> configs, String name, String otherwise) {
        Object value = configs.get(name);
        return value == null ? otherwise : value.toString();
    }

    /** Made when the first store opens. */
    Resources resources() {
        synchronized (RESOURCES) {
            return RESOURCES.computeIfAbsent(
                    memory + " " + threads,
                    key -> new Resources(Long.parseLong(memory), Integer.parseInt(threads)));
        }
    }
}
