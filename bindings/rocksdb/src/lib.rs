//! A `librocksdb` whose data is stored by Esker: RocksDB's C interface, `rocksdb/c.h` of version 11.
//!
//! Programs link it in place of RocksDB. `README.md` says how, and what differs; `FUNCTIONS.md` lists what
//! becomes of each function. That page is made from [`functions`].
//!
//! ```text
//! C program ─► border: arguments, errors, panics, memory
//!                 └─► modules by subject, safe Rust ─► the crate `esker`
//! ```
//!
//! * `unsafe` is in `border`, and where a module calls back into the program. The other exception is
//!   the attribute that gives a function its name.
//! * No panic leaves the library: each function is run by `border::guard` or `ErrorOut::guard`.
//! * A handle that needs a database shares it by an `Arc`. So handles may be destroyed in any order.

mod backup;
mod batch;
mod border;
mod cache;
mod changes;
mod checkpoint;
mod column_families;
mod comparator;
mod database;
mod destroy;
mod direction;
mod environment;
mod exceptions;
mod filter;
mod identity;
mod info_log;
mod iterator;
mod knobs;
mod listener;
mod live_files;
mod logger;
mod memory_usage;
mod merge;
mod open;
mod option_functions;
mod options;
mod options_file;
mod overlay;
mod prefix;
mod properties;
mod reads;
mod settings;
mod slots;
mod snapshot;
mod sst;
mod stamps;
mod statistics;
mod texts;
mod transaction;
mod undone;
mod upkeep;
mod writes;

/// What becomes of a function of RocksDB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Decision {
    /// It does what RocksDB does.
    Works,
    /// It succeeds, and changes nothing but what the program reads back.
    Accepted,
    /// It fails with an error, or returns null or zero.
    Refused,
}

/// A function of RocksDB's C interface.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Function {
    /// The name.
    pub name: &'static str,
    /// What becomes of it.
    pub decision: Decision,
    /// Why it does nothing, if it does nothing.
    pub reason: &'static str,
}

/// The functions that work, by module.
const WORKING: [&[&str]; 34] = [
    backup::FUNCTIONS,
    batch::FUNCTIONS,
    batch::INDEXED,
    batch::INDEXED_READS,
    batch::ITERATE,
    cache::FUNCTIONS,
    changes::FUNCTIONS,
    checkpoint::FUNCTIONS,
    column_families::FUNCTIONS,
    comparator::FUNCTIONS,
    environment::FUNCTIONS,
    filter::FUNCTIONS,
    iterator::FUNCTIONS,
    knobs::OBJECTS,
    listener::FUNCTIONS,
    live_files::FUNCTIONS,
    logger::FUNCTIONS,
    memory_usage::FUNCTIONS,
    merge::FUNCTIONS,
    open::FUNCTIONS,
    option_functions::FUNCTIONS,
    options_file::FUNCTIONS,
    prefix::FUNCTIONS,
    properties::FUNCTIONS,
    reads::FUNCTIONS,
    snapshot::FUNCTIONS,
    sst::FUNCTIONS,
    stamps::FUNCTIONS,
    statistics::FUNCTIONS,
    texts::FUNCTIONS,
    transaction::FUNCTIONS,
    transaction::READS,
    upkeep::FUNCTIONS,
    writes::FUNCTIONS,
];

/// Returns all functions that the library has, by name.
pub fn functions() -> Vec<Function> {
    const KNOB: &str = "Esker has no such knob, or chooses the value itself";
    let works = |&name: &&'static str| Function { name, decision: Decision::Works, reason: "" };
    let working = WORKING.into_iter().flatten().map(works);
    let of_knobs = knobs::all().flat_map(|knob| {
        let (decision, reason) = match knob.used {
            knobs::Use::Works => (Decision::Works, ""),
            knobs::Use::Accepted => (Decision::Accepted, KNOB),
        };
        knob.functions.iter().map(move |&name| Function { name, decision, reason })
    });
    let undone = undone::ALL.into_iter().flat_map(|undone| {
        let decision = if undone.is_accepted { Decision::Accepted } else { Decision::Refused };
        let function =
            move |&name: &&'static str| Function { name, decision, reason: undone.reason };
        undone.functions.iter().map(function)
    });
    let mut all: Vec<_> = working.chain(of_knobs).chain(undone).collect();
    for function in &mut all {
        let mut exceptions = exceptions::ALL.iter();
        if let Some((decision, reason, _)) =
            exceptions.find(|(.., names)| names.contains(&function.name))
        {
            (function.decision, function.reason) = (*decision, reason);
        }
    }
    all.sort();
    all
}
