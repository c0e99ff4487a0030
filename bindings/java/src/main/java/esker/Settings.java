package esker;

import java.util.ArrayList;
import java.util.List;

/** Settings of a database or a keyspace, by the names and values of the guide. */
public final class Settings {
    private final List<String> namesAndValues = new ArrayList<>();
    private Resources resources;

    /** Returns the defaults. */
    public Settings() {}

    /** Sets {@code name}, such as {@code "memory_bytes"} to {@code "256MiB"}. The open checks both. */
    public Settings set(String name, String value) {
        namesAndValues.add(name);
        namesAndValues.add(value);
        return this;
    }

    /** Puts the log into {@code pool}: the setting {@code log}. */
    public Settings pool(Pool pool) {
        return set("log", pool.log());
    }

    /** Lets the database share memory and threads with others. */
    public Settings resources(Resources resources) {
        this.resources = resources;
        return this;
    }

    String[] array() {
        return namesAndValues.toArray(new String[0]);
    }

    <T> T withResources(java.util.function.LongFunction<T> call) {
        return resources == null ? call.apply(0) : resources.call(call);
    }
}
