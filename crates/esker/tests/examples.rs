//! The examples for users run to their end. Each checks its own results. Two others measure what a small database
//! costs: `many_databases`, `one_key`.

macro_rules! runs {
    ($($name:ident: $path:literal),+ $(,)?) => {
        $(
            #[path = $path]
            mod $name;

            #[test]
            fn $name() {
                $name::main().unwrap();
            }
        )+
    };
}

runs! {
    quick_start: "../examples/quick_start.rs",
    job_queue: "../examples/job_queue.rs",
    secondary_index: "../examples/secondary_index.rs",
    counters: "../examples/counters.rs",
    compaction_filter: "../examples/compaction_filter.rs",
    sessions: "../examples/sessions.rs",
    backup: "../examples/backup.rs",
    transactions: "../examples/transactions.rs",
    two_databases: "../examples/two_databases.rs",
    five_tasks: "../examples/five_tasks.rs",
    space_goal: "../examples/space_goal.rs",
    persistent_memory: "../examples/persistent_memory.rs",
    tuple_keys: "../examples/tuple_keys.rs",
    typed_keyspaces: "../examples/typed_keyspaces.rs",
}
