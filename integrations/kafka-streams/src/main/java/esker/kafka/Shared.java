package esker.kafka;

import esker.Resources;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigException;

/** The memory and threads that all stores of the process with the same configuration share. */
final class Shared {
    private static final String MEMORY_BYTES = "128MiB";
    private static final String SEGMENT_BYTES = "16MiB";
    private static final String BACKGROUND_THREADS = "2";

    private static final List<String> UNITS = List.of("KiB", "MiB", "GiB");

    /** Filters may use this part of the memory, in addition to it. */
    private static final int FILTERS_OF_MEMORY = 8;

    // They live as long as the process: stores come and go as partitions are assigned.
    private static final Map<String, InUse> IN_USE = new HashMap<>();

    private final long memory;
    private final int threads;
    private final long segment;

    Shared(Map<String, ?> configs) {
        memory = bytes(configs, EskerDslStoreSuppliers.MEMORY_BYTES, MEMORY_BYTES);
        segment =
                Math.min(
                        bytes(configs, EskerDslStoreSuppliers.SEGMENT_BYTES, SEGMENT_BYTES),
                        memory / 4);
        String name = EskerDslStoreSuppliers.BACKGROUND_THREADS;
        threads = (int) number(name, text(configs, name, BACKGROUND_THREADS), 0, 1 << 10);
    }

    private static String text(Map<String, ?> configs, String name, String otherwise) {
        Object value = configs.get(name);
        return value == null ? otherwise : value.toString().trim();
    }

    /** A number of bytes, also with a unit as the settings of Esker have it: {@code 256MiB}. */
    private static long bytes(Map<String, ?> configs, String name, String otherwise) {
        String text = text(configs, name, otherwise);
        int shift = 0;
        for (int unit = 0; unit < UNITS.size(); unit++) {
            if (text.endsWith(UNITS.get(unit))) {
                text = text.substring(0, text.length() - UNITS.get(unit).length()).trim();
                shift = 10 * (unit + 1);
            }
        }
        return number(name, text, shift, Long.MAX_VALUE >> shift);
    }

    private static long number(String name, String text, int shift, long most) {
        try {
            long number = Long.parseLong(text);
            if (number >= 1 && number <= most) {
                return number << shift;
            }
        } catch (NumberFormatException error) {
            // Refused below.
        }
        String why = "it is no number that fits; give one such as 268435456 or, for bytes, 256MiB";
        throw new ConfigException(name, text, why);
    }

    /** The setting {@code segment_bytes} of each store. */
    String segmentBytes() {
        return String.valueOf(segment);
    }

    Resources resources() {
        return inUse().resources;
    }

    FilterMemory filterMemory() {
        return inUse().filters;
    }

    /** Made when the first store opens. */
    private InUse inUse() {
        synchronized (IN_USE) {
            return IN_USE.computeIfAbsent(
                    memory + " " + threads,
                    key ->
                            new InUse(
                                    new Resources(memory, threads),
                                    new FilterMemory(memory / FILTERS_OF_MEMORY)));
        }
    }

    private record InUse(Resources resources, FilterMemory filters) {}
}
