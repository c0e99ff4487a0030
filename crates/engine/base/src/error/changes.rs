//! Errors of change feeds.

/// Why a change feed or a follower cannot go on, or a consumer not be registered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangesError {
    /// The logs with the wanted changes are gone.
    ///
    /// A named consumer gets this once more logs wait for it than its bound allows. Copy the database
    /// anew, and go on from the seqno that `oldest` names.
    #[error(
        "{}changes from seqno {wanted} on are gone: the oldest that the logs still have is {oldest}; \
         read the database anew and go on from there{}",
        fell_behind(consumer.as_deref()),
        register(consumer.as_deref())
    )]
    Gone {
        /// The consumer, if it has a name.
        consumer: Option<String>,
        /// The first sequence number that was asked for.
        wanted: u64,
        /// The oldest sequence number that can still be read.
        oldest: u64,
    },

    /// The database has no write with the wanted sequence number yet.
    ///
    /// It may have lost its last writes in a power failure, or be an older copy.
    #[error(
        "there are no changes from seqno {wanted} on: the last write of the database is {last}; if it \
         had later ones, they were lost, or this is an older copy"
    )]
    NotYet {
        /// The sequence number that was asked for.
        wanted: u64,
        /// The last one.
        last: u64,
    },

    /// The wanted sequence number is inside a batch whose begin cannot be read.
    #[error(
        "seqno {wanted} is inside a batch whose start is not in the logs any more; the next batch \
         starts at {next}"
    )]
    InsideBatch {
        /// The sequence number that was asked for.
        wanted: u64,
        /// The first one after the batch.
        next: u64,
    },

    /// The log of the database is not kept.
    #[error("{what}: {reason}")]
    NotKept {
        /// What was asked for.
        what: String,
        /// Why it is not possible, and what to do.
        reason: &'static str,
    },

    /// Another database is where a follower read its own, and it is no copy of that, such as a restored backup.
    #[error("{dir} has another database now: {reason}; open the follower again to read it")]
    Replaced {
        /// The directory.
        dir: String,
        /// What is different.
        reason: String,
    },

    /// The database follows another one over a network, whose writes are applied to it. Nothing else writes
    /// to it.
    #[error(
        "{dir} follows another database, whose writes are applied to it; open it for reading, or make it \
         a database of its own (`esker promote`)"
    )]
    Follows {
        /// The directory.
        dir: String,
    },

    /// The database follows no other one: it never did, or it was promoted.
    #[error(
        "{dir} follows no other database: it was promoted, or never did; to follow one, give a new or an empty \
         directory"
    )]
    NoCopy {
        /// The directory.
        dir: String,
    },

    /// What another database sent cannot be applied to the one that follows it. Nothing of it was.
    #[error("what {source_name} sent cannot be applied: {what}")]
    Misfit {
        /// The other database.
        source_name: String,
        /// What is wrong.
        what: String,
    },

    /// The database was not opened as a follower.
    #[error("the database does not follow another process: open it as a follower")]
    NotAFollower,

    /// There is no consumer of this name.
    #[error(
        "there is no change consumer {name:?}; register it first, or list those that there are"
    )]
    UnknownConsumer {
        /// The name.
        name: String,
    },

    /// No consumer may have this name.
    #[error("{name:?} cannot be the name of a change consumer: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// Why.
        reason: &'static str,
    },
}

fn fell_behind(consumer: Option<&str>) -> String {
    consumer.map_or_else(String::new, |name| format!("the change consumer {name:?} fell behind: "))
}

fn register(consumer: Option<&str>) -> &'static str {
    match consumer {
        Some(_) => " (acknowledge what is before it), with a larger bound if this happens again",
        None => "; a named consumer keeps the logs that it needs",
    }
}

impl From<ChangesError> for super::Error {
    fn from(error: ChangesError) -> Self {
        super::Error::Changes(Box::new(error))
    }
}
