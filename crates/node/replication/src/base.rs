//! The base of a follower: the files of the primary's database, sent one after another.
//!
//! The directory of a follower has `FOLLOWS` from its first file on, and is no database until `CURRENT` is there,
//! which comes last. So a base that was interrupted is neither opened nor promoted, and the next one replaces it.

use crate::error::Result;
use crate::message::{DATA_BYTES, Message};
use crate::wire::Wire;
use esker_base::checksum::crc32c_append;
use esker_base::{Error, FileKind, WriteHint};
use esker_lsm::{FOLLOWS, LiveFiles, Origin, RESTORING};
use esker_storage::Storage;
use std::collections::BTreeSet;
use std::time::Duration;

const CURRENT: &str = "CURRENT";
/// The name of `CURRENT` before it is installed.
const CURRENT_PARTIAL: &str = "CURRENT.new";

/// How long the primary may be silent within a base.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a base is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) origin: Origin,
    pub(crate) files: u32,
}

/// Sends `files`, which are a copy of `origin`.
pub(crate) fn send(wire: &mut Wire, files: &LiveFiles, origin: Origin) -> Result<()> {
    let tables = files.tables();
    let names: Vec<&str> = tables.iter().map(String::as_str).chain(files.manifest()).collect();
    let opened = names.iter().map(|name| Ok((*name, files.open(name)?)));
    let opened = opened.collect::<Result<Vec<_>>>()?;
    let lengths = opened.iter().map(|(_, file)| file.len()).collect::<Result<Vec<u64>, Error>>()?;
    let (count, bytes) = (names.len() as u32, lengths.iter().sum());
    wire.send(&Message::Base { origin, files: count, bytes })?;
    for ((name, file), bytes) in opened.iter().zip(lengths) {
        wire.send(&Message::File { name: (*name).to_owned(), bytes })?;
        let (mut at, mut crc32c) = (0, 0);
        while at < bytes {
            let mut data = vec![0; (DATA_BYTES as u64).min(bytes - at) as usize];
            file.read_exact_at(at, &mut data)?;
            crc32c = crc32c_append(crc32c, &data);
            at += data.len() as u64;
            wire.send(&Message::Data(data))?;
        }
        wire.send(&Message::FileEnd { crc32c })?;
    }
    wire.send(&Message::BaseEnd)
}

/// Fails unless `storage` is empty, or holds a follower or what an interrupted base has left.
pub(crate) fn expect_follower_or_nothing(storage: &dyn Storage) -> Result<()> {
    let dir = storage.describe();
    if storage.exists(FOLLOWS)? {
        return Ok(());
    }
    if storage.exists(CURRENT)? {
        return Err(Error::Changes(Box::new(esker_base::ChangesError::NoCopy { dir })).into());
    }
    match storage.list()?.first() {
        None => Ok(()),
        Some(name) => {
            let reason =
                format!("it holds other files ({name:?}); give an empty or a new directory");
            Err(Error::NotADatabase { dir, reason }.into())
        }
    }
}

/// Receives the files of a base into `storage`, which holds a follower, or nothing. Nothing of what was there is left.
pub(crate) fn receive(wire: &mut Wire, storage: &dyn Storage, begun: Begun) -> Result<()> {
    let _lock = storage.lock()?;
    expect_follower_or_nothing(storage)?;
    let Begun { origin, files } = begun;
    Origin::new(origin.database, 0).write(storage)?;
    if !storage.exists(RESTORING)? {
        storage.create(RESTORING, WriteHint::of(FileKind::Meta))?.sync()?;
        storage.sync_names()?;
    }
    clear(storage)?;
    let mut names = BTreeSet::new();
    loop {
        match wire.receive(PATIENCE)? {
            Message::File { name, bytes } => {
                if !is_of_database(&name) || !names.insert(name.clone()) {
                    return Err(wire.broken(format!("a base has a file {name:?}")));
                }
                let stored = if name == CURRENT { CURRENT_PARTIAL } else { &name };
                receive_file(wire, storage, stored, bytes)?;
            }
            Message::BaseEnd if names.len() == files as usize && names.contains(CURRENT) => break,
            Message::BaseEnd => return Err(wire.broken("a base lacks files")),
            other => return Err(wire.unexpected(&other, "a file")),
        }
    }
    origin.write(storage)?;
    storage.rename(CURRENT_PARTIAL, CURRENT)?;
    storage.sync_names()?;
    storage.remove(RESTORING)?;
    Ok(storage.sync_names()?)
}

fn receive_file(wire: &mut Wire, storage: &dyn Storage, name: &str, bytes: u64) -> Result<()> {
    let mut file = storage.create(name, WriteHint::of(FileKind::Table))?;
    let (mut received, mut found) = (0, 0);
    loop {
        match wire.receive(PATIENCE)? {
            Message::Data(data) => {
                received += data.len() as u64;
                if received > bytes {
                    return Err(wire.broken(format!("the file {name} is longer than it said")));
                }
                found = crc32c_append(found, &data);
                file.append(&data)?;
            }
            Message::FileEnd { crc32c } if received == bytes && crc32c == found => break,
            Message::FileEnd { .. } => {
                return Err(wire.broken(format!("the checksum of the file {name} does not match")));
            }
            other => return Err(wire.unexpected(&other, "the rest of a file")),
        }
    }
    Ok(file.sync()?)
}

/// Removes all files but the two that say what the directory is: first the one that makes it a database.
fn clear(storage: &dyn Storage) -> Result<()> {
    if storage.exists(CURRENT)? {
        storage.remove(CURRENT)?;
        storage.sync_names()?;
    }
    for name in storage.list()? {
        if name != RESTORING && name != FOLLOWS {
            storage.remove(&name)?;
        }
    }
    Ok(storage.sync_names()?)
}

/// Whether a copy of a database may have a file of this name.
fn is_of_database(name: &str) -> bool {
    let digits = name.strip_suffix(".tables").or_else(|| name.strip_suffix(".manifest"));
    let is_numbered =
        |digits: &str| digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    name == CURRENT || digits.is_some_and(is_numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_has_files_of_a_database_only() {
        for name in ["CURRENT", "00000012.tables", "00000013.manifest", "123456789.tables"] {
            assert!(is_of_database(name), "{name}");
        }
        for name in ["FOLLOWS", "../CURRENT", "00000012.log", "0000001x.tables", ".tables", "LOCK"]
        {
            assert!(!is_of_database(name), "{name}");
        }
    }
}
