//! Logs that the manifest does not list, and what they prove about it.
//!
//! An open removes such logs. So it must know that none of their writes was acknowledged as
//! durable. The order in which a log is created shows that:
//!
//! * in a pool, the manifest records that the epoch is taken before an extent has it;
//! * in files, the manifest lists the log before it holds any write;
//! * in both, the edit that lists the log is durable before it holds any write.

use crate::log::wal_files::parse_log_file_name;
use crate::log::wal_reader::WalSource;
use crate::manifest::manifest_state::ManifestState;
use esker_base::{Error, Result, Seqno};
use esker_storage::Storage;

/// The last seqno of a log that `state` does not list and that is of the epoch `epoch`; zero if there is
/// nothing in it.
pub(crate) fn last_seqno_of(source: &WalSource<'_>, epoch: u32) -> Result<Seqno> {
    let scanned = source.read_unlisted(epoch).and_then(|mut read| read.scan(None));
    match scanned {
        Ok(scanned) => Ok(scanned.frames.last().map_or(0, |frame| frame.next_seqno() - 1)),
        // One without a sound header never held anything.
        Err(error) if error.is_corruption() => Ok(0),
        Err(error) => Err(error),
    }
}

/// The epochs on a log storage that `state` does not list.
pub(crate) fn epochs(storage: &dyn Storage, state: &ManifestState) -> Result<Vec<u32>> {
    let names = storage.list()?;
    let mut epochs: Vec<_> = names.iter().filter_map(|name| parse_log_file_name(name)).collect();
    epochs.retain(|&epoch| !state.lists_log(epoch));
    Ok(epochs)
}

/// The logs that `state` does not list and that hold writes, each with its last seqno.
pub(crate) fn writes(source: &WalSource<'_>, state: &ManifestState) -> Result<Vec<(u32, Seqno)>> {
    let mut found = Vec::new();
    for epoch in epochs(source.storage, state)? {
        let last = last_seqno_of(source, epoch)?;
        found.extend((last > 0).then_some((epoch, last)));
    }
    Ok(found)
}

/// Checks that no log is younger than the manifest.
///
/// If one is, the directory is a copy, made before that log came to be. To go on with it would free what
/// was acknowledged since, and give its seqnos and epochs out a second time. A manifest whose last edit is
/// truncated may only seem older, and is for [`check_edits`].
pub(crate) fn check_age(
    source: &WalSource<'_>,
    is_pool: bool,
    state: &ManifestState,
    dir: &str,
) -> Result<()> {
    for epoch in epochs(source.storage, state)? {
        if u64::from(epoch) < state.next_file || !is_pool && last_seqno_of(source, epoch)? == 0 {
            continue;
        }
        let reason = format!(
            "log {epoch} in it is younger than the manifest in {dir}, which is an older copy then, and \
             opening it would free what was written since; use the directory that belongs to these \
             logs. To go on with the older one, without them: `esker repair DB --give-up-logs`, with \
             neither `--pool` nor `--log-dir`, and then a new pool or log directory"
        );
        let place = source.storage.describe();
        return Err(if is_pool {
            Error::PoolRefused { pool: place, reason }
        } else {
            Error::InvalidSetting { setting: "log directory", value: place, reason }
        });
    }
    Ok(())
}

/// Checks that no log holds writes and is unknown to a manifest whose bytes from `cut_off` on are no edit.
///
/// Such bytes read as a write that was truncated. But the edit that lists a log is durable before anything
/// is written to the log: so if there are writes beyond `last_seqno`, the last that is known, in an
/// unlisted log, that edit was whole once, and was damaged since.
pub(crate) fn check_edits(
    source: &WalSource<'_>,
    state: &ManifestState,
    last_seqno: Seqno,
    manifest: &str,
    cut_off: u64,
) -> Result<()> {
    for epoch in epochs(source.storage, state)? {
        let last = last_seqno_of(source, epoch)?;
        if last > last_seqno {
            let what = format!(
                "the last edit does not check out, and log {epoch} in {} holds writes up to seqno \
                 {last} that no edit accounts for",
                source.storage.describe()
            );
            return Err(Error::corruption(manifest, cut_off, what));
        }
    }
    Ok(())
}
