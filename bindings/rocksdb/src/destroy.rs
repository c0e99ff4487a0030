//! The removal of databases.

use crate::border::{Code, Result, Status};
use crate::open::refuse_rocksdb;
use crate::options::Options;
use crate::settings::settings;
use crate::slots::Slots;
use esker::options::Recovery;
use esker::{Db, Error};
use std::path::Path;
use std::sync::Arc;

/// Whether a name is one of Esker's: a number of 8 digits or more, and what kind of file it is.
fn is_numbered(name: &str) -> bool {
    const KINDS: [&str; 6] = [".log", ".manifest", ".tables", ".values", ".ingest", ".unsettled"];
    let digits = KINDS.iter().find_map(|kind| name.strip_suffix(kind));
    digits.is_some_and(|it| it.len() >= 8 && it.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Whether a file in the directory of a database is Esker's, or a log of messages of this library.
fn is_ours(name: &str) -> bool {
    const NAMES: [&str; 10] = [
        "CURRENT",
        "CURRENT.new",
        "LOCK",
        "LOG",
        "OWNER",
        "HISTORY",
        "FOLLOWS",
        "ORIGINAL",
        "ORIGINAL.new",
        "RESTORING",
    ];
    // A log of which something was lost: `lost-00000001.log`, `lost-2-00000001.log`.
    let lost = name.strip_prefix("lost-").and_then(|rest| rest.rsplit('-').next());
    NAMES.contains(&name)
        || [crate::options_file::NAME, crate::identity::NAME].contains(&name)
        || is_numbered(lost.unwrap_or(name).trim_end_matches(".damaged"))
}

/// Fails if the database at `path` is RocksDB's, or open, or cannot be recognized. Returns whether it
/// could be opened: a damaged one cannot.
///
/// # Errors
/// As above.
pub fn check_removable(path: &str, options: &Options) -> Result<bool> {
    refuse_rocksdb(path)?;
    let dir = Path::new(path);
    if !dir.join("CURRENT").exists() {
        return Ok(false);
    }
    let settings = Arc::new(Slots::default()).add_to(settings(options, path)?);
    match Db::open_existing(dir, settings.recovery(Recovery::Prefix)) {
        Ok(db) => Ok(db.close().map(|()| true)?),
        Err(error @ Error::Locked { .. }) => {
            let what = format!("lock {path}/LOCK: Resource temporarily unavailable: {error}");
            Err(Status::new(Code::IoError, what))
        }
        Err(error) if error.is_corruption() || error.is_lost() => Ok(false),
        // A file of the database is missing.
        Err(error) if error.io_kind() == Some(std::io::ErrorKind::NotFound) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes a database, and nothing else that is in its directory.
///
/// The logs in another directory are removed as well, unless the database is damaged: then they cannot be
/// distinguished from those of another database.
///
/// # Errors
/// If it is RocksDB's, or open, or a file cannot be removed.
pub fn destroy(path: &str, options: &Options) -> Result<()> {
    if options.environment.as_ref().is_some_and(|env| env.forget(path)) {
        return Ok(());
    }
    let dir = Path::new(path);
    if !dir.is_dir() {
        return Ok(());
    }
    let is_intact = check_removable(path, options)?;
    remove_files(dir)?;
    match options.log_dir(path) {
        Some(logs) if is_intact && logs.is_dir() => remove_files(&logs),
        _ => Ok(()),
    }
}

/// Removes the files of a database in `dir`, and `dir` if no other file is there.
fn remove_files(dir: &Path) -> Result<()> {
    let failed = |error: std::io::Error| Status::io("remove", dir.display(), &error);
    for entry in dir.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_str().is_some_and(is_ours) {
            std::fs::remove_file(entry.path()).map_err(failed)?;
        }
    }
    // Other files stay, with the directory.
    let _ = std::fs::remove_dir(dir);
    Ok(())
}

/// Moves all files of `from` to `to`, which may have other files, and removes `from`.
///
/// `CURRENT` comes last: without it there is no database.
///
/// # Errors
/// If a file cannot be moved.
pub fn move_files(from: &Path, to: &Path) -> Result<()> {
    let failed = |error: std::io::Error| Status::io("move", from.display(), &error);
    std::fs::create_dir_all(to).map_err(failed)?;
    let entries: Vec<_> = from.read_dir().and_then(Iterator::collect).map_err(failed)?;
    let names = entries.into_iter().map(|entry: std::fs::DirEntry| entry.file_name());
    let (last, first): (Vec<_>, Vec<_>) = names.partition(|name| name == "CURRENT");
    for name in first.into_iter().chain(last) {
        std::fs::rename(from.join(&name), to.join(&name)).map_err(failed)?;
    }
    std::fs::remove_dir(from).map_err(failed)?;
    let synced = std::fs::File::open(to).and_then(|dir| dir.sync_all());
    synced.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_files_are_removed() {
        for name in [
            "CURRENT",
            "00000001.tables",
            "00000002.values",
            "lost-00000001.log",
            "lost-2-00000001.log",
            "LOG",
            "00000003.manifest",
            "OPTIONS-esker",
        ] {
            assert!(is_ours(name), "{name}");
        }
        for name in [
            "notes.txt",
            "000004.sst",
            "000004.log",
            "app.log",
            "MANIFEST-000001",
            "LOCKED",
            "lost-x",
        ] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
