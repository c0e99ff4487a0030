package esker.cassandra;

import java.nio.file.Path;
import java.util.List;

/**
 * Writes and reads at a fixed rate, and prints each minute how much memory the node has: the heap
 * after a collection, and the memory of the process.
 */
final class Soak {
    /** One a connection: a connection that waits for its turn does not read. */
    private static final int IN_FLIGHT = 4;
    private static final int ROW_BYTES = 200;
    private static final int READS_PERCENT = 20;
    private static final int MINUTE = 60;

    /** Each has an address of its own. */
    private static final List<String> KINDS = List.of("pool", "file", "trie");

    private static final String POOL_SIZE = "512MiB";

    private Soak() {}

    /** Arguments: minutes, requests a second, the kind. */
    public static void main(String[] arguments) throws Exception {
        int minutes = Integer.parseInt(arguments[0]);
        int rate = Integer.parseInt(arguments[1]);
        String kind = arguments[2];
        Path dir = Path.of("target/nodes/soak-" + kind);
        Node.delete(dir);
        Node node = new Node(dir, 1 + KINDS.indexOf(kind)).heap(256);
        node.withoutProperty("-ea");
        // A machine that is busy with something else does not end it.
        node.with("write_request_timeout", "60s").with("read_request_timeout", "60s");
        if (kind.equals("pool")) {
            node.onPool(POOL_SIZE);
            System.out.println("the pool is emulated persistent memory (DRAM)");
        }
        String memtable = kind.equals("trie") ? "trie" : "esker";
        try (node;
                Node.Client client = new Node.Client(node.start())) {
            client.run(
                    "CREATE KEYSPACE k WITH replication ="
                            + " {'class': 'SimpleStrategy', 'replication_factor': 1}",
                    "CREATE TABLE k.t (p bigint PRIMARY KEY, v blob) WITH memtable = '"
                            + memtable
                            + "'");
            try (Load load = new Load(node, IN_FLIGHT, ROW_BYTES, READS_PERCENT)) {
                for (int minute = 1; minute <= minutes; minute++) {
                    Load.Result result = load.run(MINUTE, rate);
                    System.out.printf(
                            "minute %2d   %6.0f requests/s   p99 %7.2f ms   heap %4d MiB"
                                    + "   anonymous %5d MiB   files %4d MiB   pool %4d MiB%n",
                            minute,
                            result.rate(),
                            result.millis(0.99),
                            node.beans().heapBytes() >> 20,
                            node.residentBytes("Anon") >> 20,
                            node.residentBytes("File") >> 20,
                            node.residentBytes("Shmem") >> 20);
                }
            }
        } finally {
            Node.delete(dir);
        }
        System.exit(0);
    }
}
