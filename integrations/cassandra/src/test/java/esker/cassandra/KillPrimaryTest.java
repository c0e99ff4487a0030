package esker.cassandra;

import java.nio.file.Path;
import java.util.Map;

/** The same, with Esker as the primary store of the tables that have no index. */
class KillPrimaryTest extends KillTest {
    @Override
    Node node(Path dir) {
        return super.node(dir).memtable("esker", Node.MEMTABLE, Map.of("primary", "true"));
    }

    @Override
    void maintain(Node node) {
        node.beans().purge("k", "rows");
    }
}
