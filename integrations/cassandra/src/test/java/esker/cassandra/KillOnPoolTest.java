package esker.cassandra;

import java.nio.file.Path;

/** The same, with Esker's log in a pool of emulated persistent memory. */
class KillOnPoolTest extends KillTest {
    @Override
    Node node(Path dir) {
        return super.node(dir).onPool("256MiB");
    }
}
