//! Restores a point in time between backups: the tables of a backup, and the log up to the point in time.

use crate::history::End;
use crate::record::Backup;
use crate::repository::{Progress, Repository};
use crate::restore::RestoreReport;
use crate::shipment::{Piece, Shipment, unhex};
use esker_base::checksum::crc32c;
use esker_base::{BackupError, Error, FileKind, KeyspaceId, Result, Seqno, WriteHint};
use esker_lsm::{KeyspaceSettings, LogSegments, log_file_name};
use esker_storage::{MemoryStorage, PosixStorage, Storage, encrypted_as};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A point in time in the history of a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PointInTime {
    /// After the write with this sequence number. Inside a batch: before the batch.
    Seqno(Seqno),
    /// At this time, in milliseconds since 1970 in UTC: the newest shipment or backup that was made by then.
    Time(u64),
}

/// Points in time that a repository can restore: all from a backup on, up to the end of what was shipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Restorable {
    /// The first sequence number.
    pub first: Seqno,
    /// The last sequence number.
    pub last: Seqno,
    /// When the first backup was made, in milliseconds since 1970 in UTC.
    pub from: u64,
    /// When the last of it was backed up or shipped, in milliseconds since 1970 in UTC.
    pub to: u64,
}

/// A backup, and the shipments that continue it up to a point in time.
struct Chain {
    backup: Backup,
    shipments: Vec<(Shipment, u64)>,
    through: Seqno,
}

/// A log to restore.
struct Log {
    epoch: u32,
    /// The header of the segment, and zeros up to the first frame.
    start: Vec<u8>,
    pieces: Vec<Wanted>,
    /// The length of all of it.
    bytes: u64,
    /// The last seqno.
    last: Seqno,
    /// Where the last batch ends that is wanted, and its last seqno.
    end: Option<(u64, Seqno)>,
}

/// Frames of a shipment.
struct Wanted {
    /// The shipment, and where the frames are in its file.
    name: String,
    from: u64,
    bytes: u64,
    crc32c: u32,
}

impl Repository {
    /// Makes a database in `dir` as it was at `point`, from a backup and what was [shipped](Repository::ship) after it.
    ///
    /// # Errors
    /// * [`BackupError::NoSuchPoint`] if the repository cannot restore the point in time. It lists what it can.
    /// * [`BackupError::Damaged`] if a file that the point in time needs is missing or damaged.
    /// * The errors of [`Repository::restore`]. Nothing is overwritten.
    pub fn restore_to(&self, point: PointInTime, dir: impl AsRef<Path>) -> Result<RestoreReport> {
        self.restore_to_while(point, dir, &mut |_| true)
    }

    /// Restores as [`Repository::restore_to`] does, as long as `goes_on` returns true.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if `goes_on` returned false, and the errors of [`Repository::restore_to`].
    pub fn restore_to_while(
        &self,
        point: PointInTime,
        dir: impl AsRef<Path>,
        goes_on: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<RestoreReport> {
        let chain = self.chain(point)?;
        let was_missing = !dir.as_ref().exists();
        let target = PosixStorage::create(dir.as_ref())?;
        let target = encrypted_as(&*self.storage, Arc::new(target));
        let restored = self.restore_chain(chain, target, goes_on);
        if restored.is_err() && was_missing {
            let _ = std::fs::remove_dir(dir.as_ref());
        }
        restored
    }

    /// Makes a database in `target` as it was at `point`.
    ///
    /// # Errors
    /// The errors of [`Repository::restore_to`].
    pub fn restore_to_into(
        &self,
        point: PointInTime,
        target: Arc<dyn Storage>,
    ) -> Result<RestoreReport> {
        self.restore_chain(self.chain(point)?, target, &mut |_| true)
    }

    /// Returns the ranges of points in time that can be restored, in order.
    ///
    /// # Errors
    /// [`BackupError::Damaged`] if a record or the head of a shipment is damaged.
    pub fn restorable(&self) -> Result<Vec<Restorable>> {
        let shipments = self.shipments()?;
        let mut ranges: Vec<Restorable> = Vec::new();
        for backup in self.backups()? {
            let (first, from) = (backup.seqno, backup.made);
            let (mut end, mut to) = (End::of(&backup), from);
            for shipment in &shipments {
                let ingest = shipment.ingests.iter().find(|&&ingest| ingest > backup.seqno);
                let goes_on = shipment.first <= end.seqno + 1 && shipment.last > end.seqno;
                if goes_on && end.is_of_one_history_with(shipment) {
                    if let Some(ingest) = ingest {
                        end.seqno = end.seqno.max(ingest - 1);
                        break;
                    }
                    (end, to) = (end.after(shipment), shipment.made.max(to));
                }
            }
            let last = end.seqno;
            match ranges.last_mut() {
                Some(earlier) if earlier.last >= first => {
                    earlier.last = last.max(earlier.last);
                    earlier.to = to.max(earlier.to);
                }
                _ => ranges.push(Restorable { first, last, from, to }),
            }
        }
        Ok(ranges)
    }

    /// What a point in time needs.
    fn chain(&self, point: PointInTime) -> Result<Chain> {
        let mut backups = self.backups()?;
        let seqno = match point {
            PointInTime::Seqno(seqno) => seqno,
            PointInTime::Time(time) => {
                // Later ones may be of another history.
                backups.retain(|backup| backup.made <= time);
                let shipped = self.shipments()?.into_iter().filter(|it| it.made <= time);
                let backed_up = backups.iter().map(|it| (it.made, it.seqno));
                let newest = shipped.map(|it| (it.made, it.last)).chain(backed_up).max();
                let newest = newest.map(|(_, seqno)| seqno);
                newest.ok_or_else(|| self.no_such(point, "its oldest backup is newer".into()))?
            }
        };
        let mut lacks = None;
        for backup in backups.into_iter().rev().filter(|backup| backup.seqno <= seqno) {
            match self.chain_from(backup, seqno)? {
                Ok(chain) => return Ok(chain),
                Err(reason) => lacks = lacks.or(Some(reason)),
            }
        }
        Err(self.no_such(point, lacks.unwrap_or_default()))
    }

    /// What restores the point in time from `backup`, or what is missing for that.
    fn chain_from(&self, backup: Backup, seqno: Seqno) -> Result<Result<Chain, String>> {
        let mut found = Vec::new();
        for first in self.shipment_numbers()? {
            if first > seqno {
                break;
            }
            let (shipment, start) = self.shipment(first)?;
            // The log after its tables may begin with the mark of an ingest that they have.
            if shipment.last >= backup.seqno {
                found.push((shipment, start));
            }
        }
        let (mut end, mut used) = (End::of(&backup), Vec::new());
        for (at, (shipment, _)) in found.iter().enumerate() {
            if !end.is_of_one_history_with(shipment) {
                continue;
            }
            let is_needed = |ingest: &&Seqno| **ingest > backup.seqno && **ingest <= seqno;
            if let Some(ingest) = shipment.ingests.iter().find(is_needed) {
                return Ok(Err(format!("the entries of the ingest at {ingest} are in no log")));
            }
            if shipment.first > end.seqno + 1 {
                break;
            }
            end = end.after(shipment);
            used.push(at);
        }
        let end = end.seqno;
        if end < seqno {
            return Ok(Err(format!("there is no {}", Shipment::name(end + 1))));
        }
        let numbered = found.into_iter().enumerate();
        let shipments = numbered.filter(|(at, _)| used.contains(at)).map(|(_, it)| it).collect();
        Ok(Ok(Chain { backup, shipments, through: seqno }))
    }

    fn restore_chain(
        &self,
        chain: Chain,
        target: Arc<dyn Storage>,
        goes_on: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<RestoreReport> {
        let Chain { backup, shipments, through } = chain;
        let manifest = self.manifest_name(&backup)?;
        let copy = self.manifest_of(&backup, &manifest)?;
        let end = LogSegments::copy_end(&copy, &manifest)?.flushed_through;
        let mut logs: Vec<Log> = Vec::new();
        let (mut last, mut keyspaces) = (backup.seqno, Vec::new());
        for (shipment, start) in &shipments {
            let name = Shipment::name(shipment.first);
            let events = unhex(&shipment.keyspaces)
                .ok_or_else(|| self.damaged(&name, "its keyspaces are no digits"))?;
            // An edit is its changes, one after another.
            keyspaces.extend(events);
            let mut at = *start;
            for piece in &shipment.pieces {
                let from = at;
                at += piece.bytes;
                if piece.last <= end || piece.first > through {
                    continue;
                }
                let Some(&(cut, seqno)) = piece.ends.iter().rfind(|(_, seqno)| *seqno <= through)
                else {
                    // A batch begins here that goes on beyond the point in time.
                    if piece.last <= through {
                        self.extend(&mut logs, piece, &name, from, piece.offset + piece.bytes)?;
                    }
                    continue;
                };
                let whole = if piece.last <= through { piece.offset + piece.bytes } else { cut };
                self.extend(&mut logs, piece, &name, from, whole)?;
                if let Some(log) = logs.last_mut() {
                    log.end = Some((cut, seqno));
                }
                last = seqno;
            }
        }
        let place = self.storage.describe();
        if LogSegments::lacks_keyspace(&copy, &manifest, &keyspaces, last, &place)? {
            let number = backup.number;
            let reason = format!("backup {number} was made while a keyspace was dropped");
            return Err(self.no_such(PointInTime::Seqno(through), reason));
        }
        let mut segments = LogSegments::new();
        segments.add_events(&keyspaces, last, &place)?;
        // What comes after the last end is a part of a batch that ends later. Before it, a batch may go on
        // from log to log.
        let newest = logs.iter().rposition(|log| log.end.is_some());
        logs.truncate(newest.map_or(0, |newest| newest + 1));
        if let Some(newest) = logs.last_mut()
            && let Some((bytes, seqno)) = newest.end
        {
            (newest.bytes, newest.last) = (bytes, seqno);
        }
        let mut finish = || {
            let mut segments = std::mem::take(&mut segments);
            for log in &logs {
                self.write_log(log, &*target)?;
                segments.add(log.epoch, log.bytes, log.last);
            }
            segments.make_database(&target, &manifest)
        };
        let report = self.restore_using(&backup, &*target, goes_on, Some(&mut finish))?;
        Ok(RestoreReport { seqno: last, ..report })
    }

    /// Adds the frames of a piece up to the offset `cut` in the segment.
    fn extend(
        &self,
        logs: &mut Vec<Log>,
        piece: &Piece,
        name: &str,
        from: u64,
        cut: u64,
    ) -> Result<()> {
        let wanted = cut.checked_sub(piece.offset).filter(|&wanted| wanted <= piece.bytes);
        let wanted =
            wanted.ok_or_else(|| self.damaged(name, "a batch ends outside of its frames"))?;
        if logs.last().is_none_or(|log| log.epoch != piece.epoch) {
            let mut start =
                unhex(&piece.header).ok_or_else(|| self.damaged(name, "a header is no digits"))?;
            if start.len() as u64 > piece.offset {
                return Err(self.damaged(name, "frames start inside the header"));
            }
            start.resize(start.len().max(first_frame(&start)), 0);
            let (epoch, bytes) = (piece.epoch, start.len() as u64);
            logs.push(Log { epoch, start, pieces: Vec::new(), bytes, last: 0, end: None });
        }
        let log = logs.last_mut().expect("it was just added");
        if log.bytes != piece.offset {
            return Err(self.damaged(name, format!("frames of log {} are missing", piece.epoch)));
        }
        let Piece { bytes, crc32c, .. } = *piece;
        log.pieces.push(Wanted { name: name.to_owned(), from, bytes, crc32c });
        log.bytes += wanted;
        log.last = piece.last;
        Ok(())
    }

    /// Writes a log, a piece at once.
    fn write_log(&self, log: &Log, target: &dyn Storage) -> Result<()> {
        let mut file = target.create(&log_file_name(log.epoch), WriteHint::of(FileKind::Log))?;
        file.append(&log.start)?;
        let mut left = log.bytes - log.start.len() as u64;
        for Wanted { name, from, bytes, crc32c: expected } in &log.pieces {
            let mut frames = vec![0; *bytes as usize];
            self.storage.open(name)?.read_exact_at(*from, &mut frames)?;
            if crc32c(&frames) != *expected {
                let what = format!("the checksum of its frames at {from} does not match");
                return Err(self.damaged(name, what));
            }
            frames.truncate(left.min(*bytes) as usize);
            file.append(&frames)?;
            left -= frames.len() as u64;
        }
        file.sync()
    }

    /// All writes up to this seqno are in the tables of `backup`. The log goes on with a segment.
    pub(crate) fn flushed_through(&self, backup: &Backup) -> Result<Seqno> {
        let manifest = self.manifest_name(backup)?;
        Ok(LogSegments::copy_end(&self.manifest_of(backup, &manifest)?, &manifest)?.flushed_through)
    }

    /// The settings of the keyspaces of `backup`.
    pub(crate) fn settings_of(
        &self,
        backup: &Backup,
    ) -> Result<BTreeMap<KeyspaceId, KeyspaceSettings>> {
        let manifest = self.manifest_name(backup)?;
        LogSegments::settings(&self.manifest_of(backup, &manifest)?, &manifest)
    }

    fn manifest_name(&self, backup: &Backup) -> Result<String> {
        let manifest = backup.files.iter().find(|file| file.name.ends_with(".manifest"));
        manifest.map(|file| file.name.clone()).ok_or_else(|| {
            self.damaged(&Backup::record_name(backup.number), "it names no manifest")
        })
    }

    /// A storage with the manifest of `backup`.
    fn manifest_of(&self, backup: &Backup, manifest: &str) -> Result<Arc<dyn Storage>> {
        let memory: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        for file in backup.files.iter().filter(|file| file.name == manifest) {
            self.copy_stored(file, &*memory)?;
        }
        Ok(memory)
    }

    /// The error for a point in time that cannot be restored, for this reason if there is one.
    fn no_such(&self, wanted: PointInTime, reason: String) -> Error {
        let range = |it: Restorable| match wanted {
            PointInTime::Seqno(_) if it.first == it.last => format!("seqno {}", it.first),
            PointInTime::Seqno(_) => format!("seqnos {} to {}", it.first, it.last),
            PointInTime::Time(_) => format!("{} and later", date(it.from)),
        };
        let mut ranges = self.restorable().unwrap_or_default();
        if matches!(wanted, PointInTime::Time(_)) {
            // Between two ranges, a time restores the end of the first.
            ranges.truncate(1);
        }
        let ranges: Vec<_> = ranges.into_iter().map(range).collect();
        let available = if ranges.is_empty() { "nothing".into() } else { ranges.join(", ") };
        let wanted = match wanted {
            PointInTime::Seqno(seqno) => format!("seqno {seqno}"),
            PointInTime::Time(time) => date(time),
        };
        let wanted = if reason.is_empty() { wanted } else { format!("{wanted} ({reason})") };
        let place = self.storage.describe();
        Error::Backup(Box::new(BackupError::NoSuchPoint { place, wanted, available }))
    }
}

/// A time in milliseconds since 1970 as a date in UTC.
fn date(milliseconds: u64) -> String {
    let time = i64::try_from(milliseconds).ok().and_then(|it| Timestamp::from_millisecond(it).ok());
    time.map_or_else(|| format!("{milliseconds} ms since 1970"), |time| time.to_string())
}

/// Where the first frame of a segment with this header starts: behind it, at a multiple of the alignment.
fn first_frame(header: &[u8]) -> usize {
    let alignment =
        header.get(24..28).and_then(|it| it.try_into().ok()).map_or(0, u32::from_le_bytes);
    header.len().next_multiple_of((alignment as usize).clamp(1, 4096))
}
