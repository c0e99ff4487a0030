//! Errors of backup repositories.

/// Why a backup cannot be made, or a database not restored from one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The directory is no backup repository.
    #[error("{place} is not a backup repository: {reason}")]
    NotARepository {
        /// The directory.
        place: String,
        /// Why, and what to do.
        reason: String,
    },

    /// The repository has backups of another database.
    ///
    /// A restored database is another one, too. Give each database a repository of its own.
    #[error(
        "{place} has backups of the database {found}, and this database is {wanted}; give each database a \
         repository of its own (a database that was restored is another one, too)"
    )]
    OtherDatabase {
        /// The repository.
        place: String,
        /// The identity of the database whose backups it has, in hexadecimal digits.
        found: String,
        /// The identity of the database to back up.
        wanted: String,
    },

    /// The repository has no such backup.
    #[error("{place} has no backup {wanted}; it has {available}")]
    UnknownBackup {
        /// The repository.
        place: String,
        /// What was asked for.
        wanted: String,
        /// The backups that it has.
        available: String,
    },

    /// The repository has no backup and no log of this point in time.
    #[error("{place} cannot restore {wanted}; it can restore {available}")]
    NoSuchPoint {
        /// The repository.
        place: String,
        /// What was asked for, and what is missing.
        wanted: String,
        /// What can be restored.
        available: String,
    },

    /// A file of the repository is missing or differs from what was written.
    ///
    /// Backups that do not use the file are intact. The next backup writes the file again if the
    /// database still has it.
    #[error(
        "{file} is damaged: {what}; backups that do not use it are intact: verify the repository to list \
         those that do"
    )]
    Damaged {
        /// The file.
        file: String,
        /// What is wrong with it.
        what: String,
    },
}
