package esker.cassandra;

import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.Session;
import com.datastax.driver.core.exceptions.DriverException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;

/**
 * One writer's partitions of a table, and what each row may be: exactly what was acknowledged last,
 * or also what was written since and not acknowledged.
 */
final class Model {
    static final int ROWS = 8;

    /** The last versions that a check of an index looks for. */
    private static final int INDEXED = 300;

    private static final Integer NONE = null;

    private final String table;
    private final int firstPartition;
    private final int partitions;
    private final Random random;
    private final List<Set<Integer>> possible = new ArrayList<>();
    private int version;
    private long acknowledged;
    private DriverException failure;

    Model(String table, int firstPartition, int partitions, long seed) {
        this.table = table;
        this.firstPartition = firstPartition;
        this.partitions = partitions;
        random = new Random(seed);
        for (int i = 0; i < partitions * ROWS; i++) {
            possible.add(new HashSet<>(Arrays.asList(NONE)));
        }
    }

    long acknowledged() {
        return acknowledged;
    }

    /** Returns why the last write was not acknowledged. */
    DriverException failure() {
        return failure;
    }

    @Override
    public String toString() {
        return table + ": " + acknowledged + " acknowledged writes";
    }

    /** The statements of one session. */
    static final class Statements {
        final Session session;
        final PreparedStatement insert;
        final PreparedStatement deleteRow;
        final PreparedStatement deleteRange;
        final PreparedStatement deletePartition;

        Statements(Session session, String table) {
            this.session = session;
            insert = session.prepare("INSERT INTO " + table + " (p, c, v, w) VALUES (?, ?, ?, ?)");
            deleteRow = session.prepare("DELETE FROM " + table + " WHERE p = ? AND c = ?");
            deleteRange =
                    session.prepare("DELETE FROM " + table + " WHERE p = ? AND c >= ? AND c < ?");
            deletePartition = session.prepare("DELETE FROM " + table + " WHERE p = ?");
        }
    }

    /** Writes once. Returns whether the write was acknowledged. */
    boolean write(Statements statements) {
        int slot = random.nextInt(partitions);
        int partition = firstPartition + slot;
        int from = random.nextInt(ROWS);
        int to = from + 1;
        int kind = random.nextInt(100);
        Integer value = NONE;
        com.datastax.driver.core.Statement statement;
        if (kind < 75) {
            value = ++version;
            statement = statements.insert.bind(partition, from, value, "w" + value);
        } else if (kind < 87) {
            statement = statements.deleteRow.bind(partition, from);
        } else if (kind < 95) {
            to = from + 1 + random.nextInt(ROWS - from);
            statement = statements.deleteRange.bind(partition, from, to);
        } else {
            from = 0;
            to = ROWS;
            statement = statements.deletePartition.bind(partition);
        }
        List<Set<Integer>> rows = possible.subList(slot * ROWS + from, slot * ROWS + to);
        for (Set<Integer> row : rows) {
            row.add(value);
        }
        try {
            statements.session.execute(statement);
        } catch (DriverException error) {
            failure = error;
            return false;
        }
        settle(rows, value);
        return true;
    }

    private void settle(List<Set<Integer>> rows, Integer value) {
        for (Set<Integer> row : rows) {
            row.clear();
            row.add(value);
        }
        acknowledged++;
    }

    /** Truncates the table, all of whose rows are of this writer. */
    boolean truncate(Session session) {
        possible.forEach(row -> row.add(NONE));
        try {
            session.execute("TRUNCATE " + table);
        } catch (DriverException error) {
            failure = error;
            return false;
        }
        settle(possible, NONE);
        return true;
    }

    /** Returns what an index on column {@code w} does wrong. Call it after {@link #check}. */
    List<String> checkIndex(Session session) {
        List<String> faults = new ArrayList<>();
        PreparedStatement read = session.prepare("SELECT p, c FROM " + table + " WHERE w = ?");
        Map<Integer, String> places = new HashMap<>();
        for (int i = 0; i < possible.size(); i++) {
            Integer value = possible.get(i).iterator().next();
            if (value != null) {
                places.put(value, (firstPartition + i / ROWS) + "/" + i % ROWS);
            }
        }
        for (int value = Math.max(1, version - INDEXED); value <= version; value++) {
            List<String> found = new ArrayList<>();
            for (Row row : session.execute(read.bind("w" + value))) {
                found.add(row.getInt("p") + "/" + row.getInt("c"));
            }
            List<String> expected =
                    places.containsKey(value) ? List.of(places.get(value)) : List.of();
            if (!found.equals(expected)) {
                faults.add(table + ": the index has " + found + ", not " + expected);
            }
        }
        return faults;
    }

    /** Returns what is wrong, and takes what is found as the state. */
    List<String> check(Session session) {
        List<String> faults = new ArrayList<>();
        PreparedStatement read = session.prepare("SELECT c, v, w FROM " + table + " WHERE p = ?");
        for (int slot = 0; slot < partitions; slot++) {
            Integer[] found = new Integer[ROWS];
            for (Row row : session.execute(read.bind(firstPartition + slot))) {
                found[row.getInt("c")] = row.getInt("v");
                if (!row.getString("w").equals("w" + row.getInt("v"))) {
                    faults.add(table + ": a row has parts of two writes: " + row);
                }
            }
            for (int c = 0; c < ROWS; c++) {
                Set<Integer> may = possible.get(slot * ROWS + c);
                if (!may.contains(found[c])) {
                    faults.add(
                            table
                                    + ": row "
                                    + (firstPartition + slot)
                                    + "/"
                                    + c
                                    + " is "
                                    + found[c]
                                    + ", but may be "
                                    + may);
                }
                may.clear();
                may.add(found[c]);
            }
        }
        return faults;
    }
}
