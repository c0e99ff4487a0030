package esker.cassandra;

import java.util.ArrayList;
import java.util.List;

/**
 * What memtables must do, in CQL: statements, and the rows that queries then return. {@code TABLE}
 * stands for the table.
 */
final class Cases {
    private static final String ROWS =
            "CREATE TABLE TABLE (p int, c int, v text, w int, PRIMARY KEY (p, c))";
    private static final String KEYS = "CREATE TABLE TABLE (p int PRIMARY KEY, v text)";

    private Cases() {}

    /** A case. Its statements come in two parts: the node is killed in between. */
    static final class Case {
        final String name;
        final List<String> first = new ArrayList<>();
        final List<String> second = new ArrayList<>();
        final List<String> queries = new ArrayList<>();
        final List<List<String>> afterFirst = new ArrayList<>();
        final List<List<String>> afterSecond = new ArrayList<>();

        Case(String name, String... statements) {
            this.name = name;
            first.addAll(List.of(statements));
        }

        Case then(String... statements) {
            second.addAll(List.of(statements));
            return this;
        }

        /** A query whose rows the second part does not change. */
        Case query(String query, String... rows) {
            return query(query, List.of(rows), List.of(rows));
        }

        Case query(String query, List<String> rowsAfterFirst, List<String> rowsAfterSecond) {
            queries.add(query);
            afterFirst.add(rowsAfterFirst);
            afterSecond.add(rowsAfterSecond);
            return this;
        }
    }

    static List<Case> all() {
        List<Case> cases = new ArrayList<>();
        cases.add(
                new Case(
                                "slices",
                                ROWS,
                                insert(1, 1, "a"),
                                insert(1, 2, "b"),
                                insert(1, 3, "c"),
                                insert(2, 1, "d"))
                        .then(insert(1, 4, "e"))
                        .query("SELECT v FROM TABLE WHERE p = 1 AND c = 2", "b")
                        .query("SELECT v FROM TABLE WHERE p = 1 AND c > 1 AND c < 4", "b", "c")
                        .query("SELECT v FROM TABLE WHERE p = 1 AND c IN (1, 3)", "a", "c")
                        .query(
                                "SELECT v FROM TABLE WHERE p = 1 ORDER BY c DESC LIMIT 2",
                                List.of("c", "b"),
                                List.of("e", "c"))
                        .query("SELECT v FROM TABLE WHERE p = 3")
                        .query("SELECT v FROM TABLE PER PARTITION LIMIT 1", "a", "d")
                        .query("SELECT DISTINCT p FROM TABLE", "1", "2"));
        cases.add(
                new Case(
                                "overwrites",
                                ROWS,
                                insert(1, 1, "a"),
                                insert(1, 1, "b"),
                                "UPDATE TABLE USING TIMESTAMP 5 SET v = 'old' WHERE p = 1 AND c ="
                                        + " 1",
                                "UPDATE TABLE SET w = 7 WHERE p = 1 AND c = 1")
                        .then("UPDATE TABLE SET w = 8 WHERE p = 1 AND c = 1")
                        .query("SELECT * FROM TABLE", List.of("1 1 b 7"), List.of("1 1 b 8")));
        cases.add(
                new Case(
                                "deletes",
                                ROWS,
                                insert(1, 1, "a"),
                                insert(1, 2, "b"),
                                insert(2, 1, "c"),
                                insert(3, 1, "d"),
                                "DELETE FROM TABLE WHERE p = 1 AND c = 1",
                                "DELETE v FROM TABLE WHERE p = 2 AND c = 1",
                                "DELETE FROM TABLE WHERE p = 3",
                                insert(3, 2, "e"))
                        .then("DELETE FROM TABLE WHERE p = 1 AND c = 2")
                        .query(
                                "SELECT p, c, v FROM TABLE",
                                List.of("1 2 b", "2 1 null", "3 2 e"),
                                List.of("2 1 null", "3 2 e")));
        cases.add(
                new Case(
                                "ranges",
                                ROWS,
                                insert(1, 1, "a"),
                                insert(1, 2, "b"),
                                insert(1, 3, "c"),
                                insert(1, 4, "d"),
                                "DELETE FROM TABLE WHERE p = 1 AND c >= 2 AND c < 4",
                                "INSERT INTO TABLE (p, c, v) VALUES (1, 2, 'old') USING TIMESTAMP"
                                        + " 5",
                                insert(1, 3, "new"))
                        .then("DELETE FROM TABLE WHERE p = 1 AND c > 3", insert(1, 5, "f"))
                        .query(
                                "SELECT c, v FROM TABLE WHERE p = 1",
                                List.of("1 a", "3 new", "4 d"),
                                List.of("1 a", "3 new", "5 f"))
                        .query(
                                "SELECT c, v FROM TABLE WHERE p = 1 ORDER BY c DESC",
                                List.of("4 d", "3 new", "1 a"),
                                List.of("5 f", "3 new", "1 a"))
                        .query(
                                "SELECT c, v FROM TABLE WHERE p = 1 AND c >= 2 AND c <= 3",
                                "3 new"));
        cases.add(
                new Case(
                                "expiry",
                                ROWS,
                                insert(1, 1, "gone") + " USING TTL 1",
                                insert(1, 2, "stays") + " USING TTL 100000",
                                insert(1, 3, "value"),
                                "UPDATE TABLE USING TTL 1 SET w = 1 WHERE p = 1 AND c = 3")
                        .query("SELECT c, v, w FROM TABLE", "2 stays null", "3 value null"));
        cases.add(
                new Case(
                                "defaultexpiry",
                                KEYS + " WITH default_time_to_live = 1",
                                "INSERT INTO TABLE (p, v) VALUES (1, 'gone')",
                                "INSERT INTO TABLE (p, v) VALUES (2, 'stays') USING TTL 100000")
                        .query("SELECT p, v FROM TABLE", "2 stays"));
        cases.add(
                new Case(
                                "statics",
                                "CREATE TABLE TABLE (p int, c int, s text static, v text, PRIMARY"
                                        + " KEY (p, c))",
                                "INSERT INTO TABLE (p, s) VALUES (1, 'x')",
                                "INSERT INTO TABLE (p, c, s, v) VALUES (2, 1, 'y', 'a')",
                                "INSERT INTO TABLE (p, c, v) VALUES (2, 2, 'b')",
                                "UPDATE TABLE SET s = 'z' WHERE p = 2")
                        .then("DELETE s FROM TABLE WHERE p = 2")
                        .query(
                                "SELECT p, c, s, v FROM TABLE",
                                List.of("1 null x null", "2 1 z a", "2 2 z b"),
                                List.of("1 null x null", "2 1 null a", "2 2 null b")));
        cases.add(
                new Case(
                                "collections",
                                "CREATE TABLE TABLE (p int PRIMARY KEY, l list<int>, s set<text>, m"
                                        + " map<int, text>)",
                                "INSERT INTO TABLE (p, l, s, m) VALUES (1, [1, 2], {'a', 'b'}, {1:"
                                        + " 'x', 2: 'y'})",
                                "UPDATE TABLE SET l = l + [3], s = s - {'a'}, m[2] = 'z' WHERE p ="
                                        + " 1",
                                "INSERT INTO TABLE (p, l, m) VALUES (2, [9], {9: 'old'})",
                                "INSERT INTO TABLE (p, m) VALUES (2, {8: 'new'})")
                        .then(
                                "UPDATE TABLE SET l[0] = 7, s = {'c'} WHERE p = 1",
                                "DELETE m[1] FROM TABLE WHERE p = 1")
                        .query(
                                "SELECT l, s, m FROM TABLE WHERE p = 1",
                                List.of("[1, 2, 3] [b] {1=x, 2=z}"),
                                List.of("[7, 2, 3] [c] {2=z}"))
                        .query("SELECT l, m FROM TABLE WHERE p = 2", "[9] {8=new}"));
        cases.add(
                new Case(
                                "counters",
                                "CREATE TABLE TABLE (p int PRIMARY KEY, n counter)",
                                "UPDATE TABLE SET n = n + 5 WHERE p = 1",
                                "UPDATE TABLE SET n = n - 2 WHERE p = 1",
                                "UPDATE TABLE SET n = n + 1 WHERE p = 2")
                        .then(
                                "UPDATE TABLE SET n = n + 10 WHERE p = 1",
                                "DELETE FROM TABLE WHERE p = 2")
                        .query("SELECT p, n FROM TABLE", List.of("1 3", "2 1"), List.of("1 13")));
        cases.add(
                new Case(
                                "conditions",
                                KEYS,
                                "INSERT INTO TABLE (p, v) VALUES (1, 'a') IF NOT EXISTS",
                                "INSERT INTO TABLE (p, v) VALUES (1, 'b') IF NOT EXISTS",
                                "INSERT INTO TABLE (p, v) VALUES (2, 'c') IF NOT EXISTS",
                                "UPDATE TABLE SET v = 'd' WHERE p = 2 IF v = 'c'",
                                "UPDATE TABLE SET v = 'e' WHERE p = 2 IF v = 'c'")
                        .then(
                                "UPDATE TABLE SET v = 'f' WHERE p = 1 IF v = 'a'",
                                "DELETE FROM TABLE WHERE p = 2 IF EXISTS")
                        .query("SELECT p, v FROM TABLE", List.of("1 a", "2 d"), List.of("1 f")));
        cases.add(
                new Case(
                                "batches",
                                ROWS,
                                "BEGIN BATCH "
                                        + insert(1, 1, "a")
                                        + "; "
                                        + insert(1, 2, "b")
                                        + "; "
                                        + insert(2, 1, "c")
                                        + "; APPLY BATCH",
                                "BEGIN UNLOGGED BATCH "
                                        + insert(1, 3, "d")
                                        + "; DELETE FROM TABLE WHERE p = 1 AND c = 1; APPLY BATCH")
                        .query("SELECT p, c, v FROM TABLE", "1 2 b", "1 3 d", "2 1 c"));
        cases.add(
                new Case(
                                "blobs",
                                "CREATE TABLE TABLE (p blob, c blob, v blob, PRIMARY KEY (p, c))",
                                "INSERT INTO TABLE (p, c, v) VALUES (0x00, 0x, 0x)",
                                "INSERT INTO TABLE (p, c, v) VALUES (0x0000, 0x00, 0x01)",
                                "INSERT INTO TABLE (p, c, v) VALUES (0x00ff, 0xff, 0x02)",
                                "INSERT INTO TABLE (p, c, v) VALUES (0xffff, 0xffff, 0x03)")
                        .query("SELECT blobasint(0x00000001) FROM TABLE WHERE p = 0x00", "1")
                        .query(
                                "SELECT writetime(v) / writetime(v) FROM TABLE WHERE p = 0x0000",
                                "1")
                        .query(
                                "SELECT writetime(v) / writetime(v) FROM TABLE WHERE p = 0xffff",
                                "1")
                        .query("SELECT count(*) FROM TABLE", "4"));
        cases.add(
                new Case(
                                "composite",
                                "CREATE TABLE TABLE (a text, b int, c text, d int, v int, PRIMARY"
                                        + " KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c DESC, d"
                                        + " ASC)",
                                "INSERT INTO TABLE (a, b, c, d, v) VALUES ('x', 1, 'k', 1, 10)",
                                "INSERT INTO TABLE (a, b, c, d, v) VALUES ('x', 1, 'm', 1, 11)",
                                "INSERT INTO TABLE (a, b, c, d, v) VALUES ('x', 1, 'm', 2, 12)",
                                "INSERT INTO TABLE (a, b, c, d, v) VALUES ('x', 2, 'k', 1, 13)")
                        .then("DELETE FROM TABLE WHERE a = 'x' AND b = 1 AND c = 'm'")
                        .query(
                                "SELECT c, d, v FROM TABLE WHERE a = 'x' AND b = 1",
                                List.of("m 1 11", "m 2 12", "k 1 10"),
                                List.of("k 1 10")));
        cases.add(
                new Case(
                                "columns",
                                ROWS,
                                insert(1, 1, "a"),
                                "ALTER TABLE TABLE ADD x int",
                                "INSERT INTO TABLE (p, c, x) VALUES (1, 2, 5)",
                                "ALTER TABLE TABLE DROP v",
                                "INSERT INTO TABLE (p, c, w) VALUES (1, 3, 6)")
                        .then(
                                "ALTER TABLE TABLE RENAME c TO d",
                                "INSERT INTO TABLE (p, d, x) VALUES (1, 4, 9)")
                        .query(
                                "SELECT * FROM TABLE",
                                List.of("1 1 null null", "1 2 null 5", "1 3 6 null"),
                                List.of(
                                        "1 1 null null",
                                        "1 2 null 5",
                                        "1 3 6 null",
                                        "1 4 null 9")));
        for (String kind : List.of("legacy", "sai")) {
            String using = kind.equals("sai") ? " USING 'sai'" : "";
            cases.add(
                    new Case(
                                    kind + "index",
                                    ROWS,
                                    "CREATE INDEX ON TABLE (v)" + using,
                                    insert(1, 1, "a"),
                                    insert(1, 2, "b"),
                                    insert(2, 1, "a"),
                                    insert(3, 1, "a"),
                                    insert(3, 1, "c"),
                                    insert(4, 1, "b"),
                                    "DELETE FROM TABLE WHERE p = 4")
                            .then(insert(2, 1, "b"), "DELETE FROM TABLE WHERE p = 1 AND c = 2")
                            .query(
                                    "SELECT p, c FROM TABLE WHERE v = 'a'",
                                    List.of("1 1", "2 1"),
                                    List.of("1 1"))
                            .query(
                                    "SELECT p, c FROM TABLE WHERE v = 'b'",
                                    List.of("1 2"),
                                    List.of("2 1"))
                            .query("SELECT p, c FROM TABLE WHERE v = 'c'", "3 1"));
        }
        Case hot = new Case("hot", ROWS);
        List<String> hotRows = new ArrayList<>();
        for (int i = 0; i < 300; i++) {
            hot.first.add(insert(1, i % 100, "v" + i));
        }
        for (int i = 0; i < 100; i++) {
            hotRows.add(i + " v" + (i + 200));
        }
        cases.add(hot.query("SELECT c, v FROM TABLE WHERE p = 1", hotRows.toArray(new String[0])));
        cases.add(many());
        return cases;
    }

    /** Many partitions with many rows, of which some are deleted whole, some in part. */
    private static Case many() {
        Case many = new Case("many", ROWS);
        for (int p = 0; p < 40; p++) {
            for (int c = 0; c < 10; c++) {
                many.first.add(insert(p, c, "v" + p + "." + c));
            }
        }
        for (int p = 0; p < 40; p += 4) {
            many.first.add("DELETE FROM TABLE WHERE p = " + p);
        }
        for (int p = 1; p < 40; p += 4) {
            many.second.add("DELETE FROM TABLE WHERE p = " + p + " AND c < 5");
        }
        return many.query("SELECT count(*) FROM TABLE", List.of("300"), List.of("250"))
                .query("SELECT count(*) FROM TABLE WHERE p = 1", List.of("10"), List.of("5"))
                .query("SELECT count(*) FROM TABLE WHERE p = 4", "0")
                .query(
                        "SELECT count(*) FROM TABLE WHERE token(p) >= token(7) AND token(p) <="
                                + " token(7)",
                        "10")
                .query(
                        "SELECT count(*) FROM TABLE WHERE token(p) > token(7) AND token(p) <="
                                + " token(7)",
                        "0");
    }

    private static String insert(int p, int c, String v) {
        return "INSERT INTO TABLE (p, c, v) VALUES (" + p + ", " + c + ", '" + v + "')";
    }
}
