package esker.cassandra;

/** Operations on tables whose rows Esker keeps. Cassandra's own work on SSTables alone. */
public interface KeptTablesMBean {
    /**
     * Folds the updates of each partition of a table, and removes what a compaction would: expired
     * cells, and tombstones that are older than {@code gc_grace_seconds}. Esker does it every six
     * hours as well.
     *
     * @return how many partitions changed
     */
    long purge(String keyspace, String table);

    /** Deletes the partitions that the node does not own, as {@code nodetool cleanup}. */
    void cleanup(String keyspace, String table);

    /**
     * Deletes the rows of a table that the schema lacks. A start keeps them, as they may be wanted.
     *
     * @param id the ID of the table
     */
    void forget(String id);
}
