//! How a command ends when it does not end well.

use crate::units;
use esker_initiator::RemoteError;
use esker_replication::ReplicationError;
use std::fmt::Display;

/// A command's result.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Why a command stopped.
#[derive(Debug)]
pub enum Failure {
    /// Something went wrong: status 2.
    Failed(String),
    /// The command can't be what the user meant: status 2.
    Usage(String),
    /// The command did its work, and its answer is no: status 1.
    No(Answer, String),
    /// The user stopped it; what was done is said: status 130, as shells have it for SIGINT.
    Interrupted(String),
    /// Everything to be said was said: this status.
    Said(u8),
    /// The output has no reader any more: status 0, and silence.
    PipeClosed,
}

/// Why a command's answer is no.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// There is no such key.
    NotFound,
    /// There is such a key, and there should be none.
    Exists,
    /// What was checked has problems, each of them printed.
    Problems,
    /// What was read has gaps, each of them reported.
    Incomplete,
}

impl Answer {
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Answer::NotFound => "not_found",
            Answer::Exists => "exists",
            Answer::Problems => "problems",
            Answer::Incomplete => "incomplete",
        }
    }
}

impl Failure {
    /// A failure with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Failure::Failed(message.into())
    }

    /// The answer that something is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Failure::No(Answer::NotFound, message.into())
    }

    /// The answer that a check of `what` found so many problems, if there are any.
    pub fn of_problems(what: impl Display, number: usize, advice: &str) -> Outcome {
        let problems = units::counted(number as u64, "problem");
        match number {
            0 => Ok(()),
            _ => Err(Failure::No(Answer::Problems, format!("{what} has {problems}{advice}"))),
        }
    }

    /// What a check says of an error that ends it: damage is a problem that it found.
    pub fn of_check(error: esker::Error) -> Self {
        match error.is_corruption() {
            true => Failure::No(Answer::Problems, error.to_string()),
            false => error.into(),
        }
    }

    /// Combines the result of printing with the command's `verdict`. A closed pipe does not change a failed
    /// verdict.
    pub fn after_output(shown: Outcome, verdict: Outcome) -> Outcome {
        match (shown, verdict) {
            (Ok(()), verdict) => verdict,
            (Err(Failure::PipeClosed), Err(verdict)) => Err(verdict),
            (Err(failure), _) => Err(failure),
        }
    }

    /// A failure to do `action` to `path`.
    pub fn io(action: &'static str, path: impl Into<String>, source: std::io::Error) -> Self {
        esker::Error::io(action, path, source).into()
    }

    /// The same, with `more` said behind what is said already.
    pub fn and(self, more: &str) -> Self {
        match self {
            Failure::Failed(message) => Failure::Failed(message + more),
            Failure::Usage(message) => Failure::Usage(message + more),
            Failure::No(answer, message) => Failure::No(answer, message + more),
            Failure::Interrupted(message) => Failure::Interrupted(message + more),
            Failure::Said(_) | Failure::PipeClosed => self,
        }
    }

    /// What is said of it.
    pub fn why(&self) -> String {
        match self {
            Failure::Failed(why) | Failure::Usage(why) | Failure::No(_, why) => why.clone(),
            Failure::Interrupted(why) => why.clone(),
            Failure::Said(_) | Failure::PipeClosed => String::new(),
        }
    }

    /// The same, with `place` said before it.
    pub fn at(self, place: &str) -> Self {
        let placed = |message: String| format!("{place}: {message}");
        match self {
            Failure::Failed(message) => Failure::Failed(placed(message)),
            Failure::Usage(message) => Failure::Usage(placed(message)),
            Failure::No(answer, message) => Failure::No(answer, placed(message)),
            Failure::Interrupted(message) => Failure::Interrupted(placed(message)),
            Failure::Said(_) | Failure::PipeClosed => self,
        }
    }
}

impl From<esker::Error> for Failure {
    fn from(error: esker::Error) -> Self {
        use esker::Error::{
            BadKeyspaceName, BatchTooLarge, Cancelled, EmptyKey, EmptyRange, InvalidSetting, Io,
            KeyTooLong, LargeValue, TooManyRangeDeletes, UnknownKeyspace, ValueTooLarge,
        };
        let error = in_words(error);
        match error {
            // A directory that is not the database's, or has lost a file: the command may be as it should.
            Cancelled { what } => {
                Failure::Interrupted(format!("interrupted; nothing of the {what} is left"))
            }
            InvalidSetting { setting: "log directory", .. } => Failure::Failed(error.to_string()),
            UnknownKeyspace { name } => Failure::Failed(format!(
                "there is no keyspace {name:?}; `esker keyspaces` lists those there are"
            )),
            Io { ref path, .. } if error.is_out_of_space() && path.ends_with(".log") => {
                Failure::Failed(format!(
                    "{error}; the log is allocated a segment at a time: --segment makes it smaller"
                ))
            }
            InvalidSetting { .. }
            | EmptyKey
            | KeyTooLong { .. }
            | ValueTooLarge { .. }
            | LargeValue(_)
            | BatchTooLarge { .. }
            | TooManyRangeDeletes { .. }
            | EmptyRange
            | BadKeyspaceName { .. } => Failure::Usage(error.to_string()),
            error => Failure::Failed(error.to_string()),
        }
    }
}

/// The same, with a setting called as the flag is by which it is given.
fn in_words(error: esker::Error) -> esker::Error {
    match error {
        esker::Error::InvalidSetting { setting, value, reason } => {
            esker::Error::InvalidSetting { setting: flag(setting), value, reason }
        }
        error => error,
    }
}

/// How a setting is given, if it is by a flag of another name.
fn flag(setting: &'static str) -> &'static str {
    match setting {
        "segment_bytes" => "--segment",
        "memory_bytes" => "--memory",
        "background_threads" => "--background-threads",
        "background_write_rate" => "--background-write-rate",
        "dram_table_bytes" => "--dram-table",
        "log sync interval" => "--sync",
        "filter_bits" => "--filter-bits",
        "merge" => "--merge",
        "ttl" => "--keyspace-ttl",
        "ratio" => "--shape leveled",
        "runs" => "--shape tiered",
        "dedup" => "--dedup",
        "threshold" => "--dedup per-level",
        "amp" => "--dedup space-goal",
        "benchmark" => "--cases",
        "batch-size" => "--batch",
        "size" => "--bytes",
        other => other,
    }
}

impl From<ReplicationError> for Failure {
    fn from(error: ReplicationError) -> Self {
        match error {
            ReplicationError::Database(error) => error.into(),
            error => Failure::Failed(error.to_string()),
        }
    }
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Key { .. } | RemoteError::Value { .. } => {
                Failure::Usage(error.to_string())
            }
            error => Failure::Failed(error.to_string()),
        }
    }
}

/// An error of writing to standard output: all other I/O is reported with its path.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::PipeClosed,
            _ => Failure::Failed(format!("could not write the output: {error}")),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure::from(std::io::Error::from(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    fn message(path: &str, kind: ErrorKind) -> String {
        match Failure::io("allocate", path, Error::from(kind)) {
            Failure::Failed(message) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_log_that_does_not_fit_the_disk_names_the_flag_that_helps() {
        assert!(message("db/00000002.log", ErrorKind::StorageFull).contains("--segment"));
        assert!(!message("all.tsv", ErrorKind::StorageFull).contains("--segment"));
        assert!(!message("db/00000002.log", ErrorKind::PermissionDenied).contains("--segment"));
    }
}
