//! Backups in a repository, and restores.

use crate::border::{given, path, slot};
use crate::bytes::esker_bytes;
use crate::error::esker_error;
use crate::open::esker_db;
use crate::status::esker_status;
use esker::backup::Repository;
use std::ffi::c_char;
use std::fmt::Write as _;

/// Backs up the database into the repository in the directory `repository`, which is created if it is
/// missing or empty. Copies the files that no earlier backup has. Sets `*number_out` to the number of
/// the backup; `number_out` may be NULL.
///
/// `ESKER_BACKUP` if the directory is no repository or one of another database; `ESKER_LOCKED` if
/// another call changes it; `ESKER_CORRUPTION` if a table is damaged; `ESKER_IO`,
/// `ESKER_OUT_OF_SPACE`, `ESKER_CLOSED`. Earlier backups stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_backup_create(
    db: Option<&esker_db>,
    repository: *const c_char,
    number_out: *mut u64,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let (db, repository) = (given(db, "db")?, path(repository, "repository")?);
        db.closed.check()?;
        let report = Repository::create(repository)?.back_up(&db.db)?;
        if !number_out.is_null() {
            slot(number_out, report.number, "the number")?;
        }
        Ok(())
    })
}

/// Returns the backups of a repository, the oldest first, as lines of three numbers: the number of the
/// backup, when it was begun in milliseconds since 1970, and its size in bytes. The caller frees the
/// text.
///
/// `ESKER_BACKUP` if there is no repository, `ESKER_CORRUPTION`, `ESKER_IO`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_backup_list(
    repository: *const c_char,
    text_out: *mut esker_bytes,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = slot(text_out, esker_bytes::NOTHING, "the backups")?;
        let mut lines = String::new();
        for backup in Repository::open(path(repository, "repository")?)?.backups()? {
            let _ = writeln!(lines, "{} {} {}", backup.number, backup.made, backup.bytes());
        }
        out.put(esker_bytes::of_text(lines));
        Ok(())
    })
}

/// Makes a database in the directory `dir`, which must be missing or empty, from the backup `number`; 0
/// stands for the newest. Each file is compared with its checksum.
///
/// `ESKER_BACKUP` if there is no such backup, `ESKER_CORRUPTION` if a file of it is damaged,
/// `ESKER_DATABASE_EXISTS` or `ESKER_NOT_A_DATABASE` if `dir` holds something, `ESKER_IO`. After an
/// error nothing of the backup is left in `dir`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_backup_restore(
    repository: *const c_char,
    number: u64,
    dir: *const c_char,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let repository = Repository::open(path(repository, "repository")?)?;
        repository.restore((number > 0).then_some(number), path(dir, "dir")?)?;
        Ok(())
    })
}

/// Removes all backups but the newest `keep`, and the files that only they used.
///
/// `ESKER_INVALID_SETTING` if `keep` is 0; `ESKER_BACKUP`, `ESKER_LOCKED`, `ESKER_CORRUPTION`,
/// `ESKER_IO`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_backup_prune(
    repository: *const c_char,
    keep: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        Repository::open(path(repository, "repository")?)?.prune(keep)?;
        Ok(())
    })
}
