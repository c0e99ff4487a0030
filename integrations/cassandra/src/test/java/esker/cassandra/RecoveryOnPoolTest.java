package esker.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The same with the log in a pool of emulated persistent memory, and which pools are refused. */
class RecoveryOnPoolTest extends RecoveryTest {
    @Override
    Node node(String name) throws Exception {
        return super.node(name).onPool("64MiB");
    }

    private static String refusal(Node node, Map<String, String> parameters) throws IOException {
        Files.deleteIfExists(node.log());
        node.memtable("esker", Node.MEMTABLE, parameters);
        String log = node.startRefused();
        node.memtable("esker", Node.MEMTABLE, node.parameters());
        return log;
    }

    private static Map<String, String> with(Node node, String name, String value) {
        Map<String, String> parameters = new HashMap<>(node.parameters());
        parameters.remove(name);
        if (value != null) {
            parameters.put(name, value);
        }
        return parameters;
    }

    private static void assertSays(String log, Object... parts) {
        for (Object part : parts) {
            assertTrue(log.contains(part.toString()), part + " is not in " + log);
        }
    }

    @Test
    void aPoolThatDoesNotFitIsRefused() throws Exception {
        try (Node first = node("first");
                Node second = node("second")) {
            for (Node node : List.of(first, second)) {
                node.start();
                try (Node.Client client = new Node.Client(node)) {
                    client.run(KEYSPACE, table("t", "esker"), insert("t", 1, "a"));
                }
                node.kill();
                assertSays(Files.readString(node.log()), node.pool() + " is emulated");
            }
            String others = first.pool().toString();
            assertSays(
                    refusal(second, with(second, "pool", others)),
                    others,
                    "it belongs to another database");
            Path pool = first.pool();
            assertSays(
                    refusal(first, with(first, "pool_size", "32MiB")),
                    pool + " has 67108864 bytes",
                    "set it to 67108864B");
            assertSays(refusal(first, with(first, "pool_emulated", null)), pool, "tmpfs");
            Path directory = first.dir().resolve("esker");
            assertSays(refusal(first, Map.of()), directory + " failed", "a pool");

            Path away = first.dir().resolve("away");
            Files.move(pool, away);
            String missing = refusal(first, first.parameters());
            assertSays(missing, pool, "there is no such file", "mount it");
            assertFalse(Files.exists(pool));

            Files.copy(away, pool);
            try (FileChannel file = FileChannel.open(pool, StandardOpenOption.WRITE)) {
                file.truncate(32 << 20);
            }
            assertSays(refusal(first, first.parameters()), pool + " has 33554432 bytes");
            String truncated = refusal(first, with(first, "pool_size", null));
            assertSays(truncated, pool, "it was truncated");

            Files.delete(pool);
            Files.move(away, pool);
            first.start();
            try (Node.Client client = new Node.Client(first)) {
                assertEquals(List.of("1 a"), client.rows("SELECT * FROM k.t"));
            }
        }
    }
}
