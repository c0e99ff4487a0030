//! What can be seen transaction by transaction, and then the graph.

use super::graph::Graph;
use super::{Action, History, Isolation, Key, Outcome, Recorded, WriteId};
use std::collections::HashMap;

/// Something that the level excludes. Transactions are given by their places in the history.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields say who and where")]
pub enum Anomaly {
    /// A read of a value that no transaction wrote to that key.
    UnknownVersion { reader: usize, key: Key },
    /// G1a: a read of what was rolled back.
    AbortedRead { reader: usize, writer: usize, key: Key },
    /// G1b: a read of what its writer replaced before it committed.
    IntermediateRead { reader: usize, writer: usize, key: Key },
    /// A read of what its writer had not begun to commit.
    DirtyRead { reader: usize, writer: usize, key: Key },
    /// A transaction did not see its own write.
    OwnWriteMissed { reader: usize, key: Key },
    /// Two reads of a transaction saw two versions of a key.
    NonRepeatableRead { reader: usize, key: Key },
    /// Two transactions replaced the same version.
    LostUpdate { first: usize, second: usize, key: Key },
    /// A circle of dependencies that the level excludes.
    Circle {
        /// Its name: `G0`, `G1c`, `G-single` or `G2`.
        name: &'static str,
        /// Who depends on whom by what.
        path: String,
    },
}

/// A write and its writer.
#[derive(Clone, Copy)]
struct Written {
    writer: usize,
    key: Key,
    /// Whether it is the writer's last to the key.
    is_last: bool,
}

/// What `history` shows that its transactions' levels exclude. O(operations + dependencies).
pub fn check(history: &History) -> Vec<Anomaly> {
    let mut check = Check { history, writes: HashMap::new(), anomalies: Vec::new() };
    check.collect_writes();
    for at in 0..history.transactions.len() {
        check.check_reads(at);
    }
    let replaced = check.check_replaced();
    let writer_of = |id| check.writes.get(&id).map(|written| written.writer);
    let graph = Graph::new(history, &check.external_reads(), &replaced, writer_of);
    let circles = graph.circles();
    check.anomalies.extend(circles);
    check.anomalies
}

/// A read of what others wrote, or of nothing.
pub(super) struct ExternalRead {
    pub(super) reader: usize,
    pub(super) key: Key,
    pub(super) version: Option<WriteId>,
}

/// Who put which version in the place of another: by key and replaced version.
pub(super) type Replaced = HashMap<(Key, Option<WriteId>), Vec<usize>>;

struct Check<'a> {
    history: &'a History,
    writes: HashMap<WriteId, Written>,
    anomalies: Vec<Anomaly>,
}

impl Check<'_> {
    fn collect_writes(&mut self) {
        for (writer, transaction) in self.history.transactions.iter().enumerate() {
            let mut last: HashMap<Key, WriteId> = HashMap::new();
            for operation in &transaction.operations {
                let Action::Write(id) = operation.action else { continue };
                let key = operation.key;
                self.writes.insert(id, Written { writer, key, is_last: true });
                if let Some(before) = last.insert(key, id) {
                    self.writes.insert(before, Written { writer, key, is_last: false });
                }
            }
        }
    }

    fn check_reads(&mut self, reader: usize) {
        let transaction = &self.history.transactions[reader];
        let mut own: HashMap<Key, WriteId> = HashMap::new();
        let mut seen: HashMap<Key, Option<WriteId>> = HashMap::new();
        for operation in &transaction.operations {
            let key = operation.key;
            match operation.action {
                Action::Write(id) => drop(own.insert(key, id)),
                Action::Read(version) | Action::ReadForUpdate(version) => {
                    if let Some(&id) = own.get(&key) {
                        if version != Some(id) {
                            self.anomalies.push(Anomaly::OwnWriteMissed { reader, key });
                        }
                        continue;
                    }
                    let before = *seen.entry(key).or_insert(version);
                    if before != version && transaction.isolation >= Isolation::Snapshot {
                        self.anomalies.push(Anomaly::NonRepeatableRead { reader, key });
                    }
                    if let Some(id) = version {
                        self.anomalies.extend(self.wrong_version(reader, key, id, operation.at));
                    }
                }
            }
        }
    }

    /// What is wrong with reading `id`, seen by `reader` before `at`.
    fn wrong_version(&self, reader: usize, key: Key, id: WriteId, at: u64) -> Option<Anomaly> {
        let Some(written) = self.writes.get(&id).filter(|written| written.key == key) else {
            return Some(Anomaly::UnknownVersion { reader, key });
        };
        let writer = written.writer;
        if writer == reader {
            // Read before it was written.
            return Some(Anomaly::UnknownVersion { reader, key });
        }
        let theirs = &self.history.transactions[writer];
        if theirs.outcome == Outcome::Aborted {
            Some(Anomaly::AbortedRead { reader, writer, key })
        } else if !written.is_last {
            Some(Anomaly::IntermediateRead { reader, writer, key })
        } else if at < theirs.ending {
            Some(Anomaly::DirtyRead { reader, writer, key })
        } else {
            None
        }
    }

    /// Which committed transactions replaced which versions, as far as that is known; two of one
    /// version are an anomaly.
    fn check_replaced(&mut self) -> Replaced {
        let mut replaced = Replaced::new();
        for (writer, transaction) in self.history.transactions.iter().enumerate() {
            if transaction.outcome == Outcome::Committed {
                for place in replaced_by(transaction) {
                    replaced.entry(place).or_default().push(writer);
                }
            }
        }
        for (&(key, _), writers) in &replaced {
            for pair in writers.windows(2) {
                self.anomalies.push(Anomaly::LostUpdate { first: pair[0], second: pair[1], key });
            }
        }
        replaced
    }

    /// What committed transactions read of what others had written.
    fn external_reads(&self) -> Vec<ExternalRead> {
        let mut reads = Vec::new();
        for (reader, transaction) in self.history.transactions.iter().enumerate() {
            if transaction.outcome != Outcome::Committed {
                continue;
            }
            let mut own: Vec<Key> = Vec::new();
            for operation in &transaction.operations {
                let key = operation.key;
                match operation.action {
                    Action::Write(_) => own.push(key),
                    Action::Read(version) | Action::ReadForUpdate(version) => {
                        if !own.contains(&key) {
                            reads.push(ExternalRead { reader, key, version });
                        }
                    }
                }
            }
        }
        reads
    }
}

/// The versions that a transaction's writes come next after, where that is known.
fn replaced_by(transaction: &Recorded) -> Vec<(Key, Option<WriteId>)> {
    let mut read: HashMap<Key, Option<WriteId>> = HashMap::new();
    let mut replaced = Vec::new();
    let mut written: Vec<Key> = Vec::new();
    for operation in &transaction.operations {
        let key = operation.key;
        match operation.action {
            Action::Read(version) if transaction.isolation >= Isolation::Snapshot => {
                read.entry(key).or_insert(version);
            }
            Action::Read(_) => {}
            Action::ReadForUpdate(version) => drop(read.entry(key).or_insert(version)),
            Action::Write(_) if !written.contains(&key) => {
                written.push(key);
                replaced.extend(read.get(&key).map(|&version| (key, version)));
            }
            Action::Write(_) => {}
        }
    }
    replaced
}
