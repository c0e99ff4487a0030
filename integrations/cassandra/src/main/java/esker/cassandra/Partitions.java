package esker.cassandra;

import esker.Entry;
import esker.Keyspace;
import esker.Range;
import esker.Scan;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;

/**
 * The partitions of a range in order, from all generations of a memtable: for each, the values of
 * its updates. It reads each generation at one snapshot. Close it.
 */
final class Partitions implements Iterator<List<byte[]>>, AutoCloseable {
    private final List<Source> sources = new ArrayList<>();

    /**
     * Opens an iterator.
     *
     * @param prefixes the generations
     * @param start the first partition, or {@code null}
     * @param end the end, which is no part of the range, or {@code null}
     */
    Partitions(Keyspace rows, List<byte[]> prefixes, byte[] start, byte[] end) {
        try {
            for (byte[] prefix : prefixes) {
                byte[] from = start == null ? prefix : Keys.join(prefix, start);
                byte[] to = end == null ? Keys.after(prefix) : Keys.join(prefix, end);
                sources.add(new Source(rows.scan(Range.of(from, to))));
            }
            sources.forEach(Source::advance);
            sources.removeIf(Source::isDone);
        } catch (RuntimeException error) {
            close();
            throw error;
        }
    }

    @Override
    public boolean hasNext() {
        return !sources.isEmpty();
    }

    @Override
    public List<byte[]> next() {
        if (sources.isEmpty()) {
            throw new NoSuchElementException();
        }
        byte[] least = sources.get(0).partition;
        for (Source source : sources) {
            if (Arrays.compareUnsigned(source.partition, least) < 0) {
                least = source.partition;
            }
        }
        List<byte[]> updates = new ArrayList<>(1);
        for (Source source : sources) {
            source.take(least, updates);
        }
        sources.removeIf(Source::isDone);
        return updates;
    }

    @Override
    public void close() {
        sources.forEach(source -> source.scan.close());
        sources.clear();
    }

    /** A generation. */
    private static final class Source {
        private final Scan scan;
        private Entry entry;
        private byte[] partition;

        Source(Scan scan) {
            this.scan = scan;
        }

        private void advance() {
            entry = scan.hasNext() ? scan.next() : null;
            partition = entry == null ? null : Keys.partitionOf(entry.key());
        }

        void take(byte[] wanted, List<byte[]> updates) {
            while (entry != null && Arrays.equals(partition, wanted)) {
                updates.add(entry.value());
                advance();
            }
        }

        boolean isDone() {
            return entry == null;
        }
    }
}
