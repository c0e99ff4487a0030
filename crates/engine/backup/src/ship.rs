//! Ships the log of an open database into a repository.

use crate::history::{Openings, has, noted};
use crate::repository::{PARTIAL, Repository};
use crate::shipment::{HEAD_BYTES_MAX, Piece, Shipment, hex};
use esker_base::checksum::crc32c;
use esker_base::{ChangesError, Error, FileKind, Result, Seqno, WriteHint};
use esker_lsm::{Db, KeyspaceInfo, Lineage, LiveFiles, LogPiece};

/// A shipment is ended once it has so many bytes.
const SHIPMENT_BYTES: usize = 32 << 20;

/// What was shipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ShipReport {
    /// The repository has all writes up to this sequence number.
    pub seqno: Seqno,
    /// The number of shipments.
    pub shipments: u64,
    /// The bytes of their frames.
    pub bytes: u64,
    /// The number of the backup that was made first, if one was needed.
    pub backup: Option<u64>,
}

/// Where the log is read.
#[derive(Clone, Copy)]
struct Source<'a> {
    db: &'a Db,
    /// The openings of the database that are known.
    lineage: &'a Lineage,
    /// Beyond this write it may not survive a power loss.
    through: Seqno,
}

impl Repository {
    /// Ships what was written to the log of `db` since the last call, so that
    /// [`Repository::restore_to`] restores each point in time of it. Call it at an interval.
    ///
    /// The first call makes a backup, and registers a change consumer of `db`, which keeps at most
    /// `bound_bytes` of its logs between two calls. A call makes another backup if logs that it needs are
    /// gone, if the database lost writes that were shipped, even if it has written others in their place since, and after an ingest, whose entries are in no log: the writes from the ingest to that backup can be
    /// restored together only. It does so, too, after [`Keyspace::set_ttl`](esker_lsm::Keyspace::set_ttl) and after
    /// [`Db::set`] of stored settings: a point in time from before that backup has the earlier settings.
    ///
    /// # Errors
    /// The errors of [`Repository::back_up`] and [`Db::change_consumer`]. After an error the repository has what it had,
    /// and the next call goes on.
    pub fn ship(&self, db: &Db, bound_bytes: u64) -> Result<ShipReport> {
        Repository::expect_encrypted(db.encryption(), &*self.storage)?;
        let consumer = db.change_consumer_or_anew(&self.consumer(), bound_bytes)?;
        let mut report = ShipReport::default();
        let lineage = &db.lineage()?;
        let source = Source { db, lineage, through: Seqno::MAX };
        let mut files = || db.live_files();
        let ends = self.ends_of_chain(consumer.next_seqno() - 1, lineage)?;
        let (last, ingest) = match self.ship_after(&ends, source, &mut report)? {
            Some(shipped) => shipped,
            None => {
                let start = self.base(lineage, &mut files, &mut report)?;
                self.ship_from(source, start, &mut report)?
            }
        };
        if ingest || self.lacks_settings(db)? {
            self.base(lineage, &mut files, &mut report)?;
        }
        report.seqno = last;
        // What was shipped is durable.
        consumer.acknowledge(last)?;
        Ok(report)
    }

    /// Returns the name of the change consumer that keeps logs for the repository.
    pub fn consumer(&self) -> String {
        format!("repository {}", self.storage.describe())
    }

    /// Returns the sequence number after which shipments go on, if the log after it is there: that of the newest
    /// shipment, or of the newest backup if there is no shipment.
    ///
    /// # Errors
    /// [`BackupError::Damaged`](crate::BackupError::Damaged) if a record or a shipment is damaged.
    pub fn shipped_through(&self) -> Result<Option<Seqno>> {
        if let Some(last) = self.newest_shipped(0, &|_, _| true)? {
            return Ok(Some(last));
        }
        let newest = self.backups()?.pop();
        newest.map(|backup| self.flushed_through(&backup)).transpose()
    }

    /// Ships as [`Repository::ship`] does, from a database that another process writes.
    ///
    /// `reader` was opened for reading after that process has registered the consumer
    /// [`Repository::consumer`] and made its log durable up to `through`: see
    /// [`request_log`](esker_lsm::request_log). `lineage` was [noted](Lineage::noted) after that and before `reader` was
    /// opened. `files` makes a checkpoint of the database. Acknowledge what the report says with the next request. If a backup was made, more may be shipped with another reader.
    ///
    /// # Errors
    /// The errors of [`Repository::ship`].
    pub fn ship_beside(
        &self,
        reader: &Db,
        lineage: &Lineage,
        through: Seqno,
        files: &mut dyn FnMut() -> Result<LiveFiles>,
    ) -> Result<ShipReport> {
        Repository::expect_encrypted(reader.encryption(), &*self.storage)?;
        let mut report = ShipReport::default();
        let source = Source { db: reader, lineage, through };
        let ends = self.ends_of_chain(0, lineage)?;
        let needs_base = match self.ship_after(&ends, source, &mut report)? {
            None => true,
            Some((last, ingest)) => {
                report.seqno = last;
                ingest || self.lacks_settings(reader)?
            }
        };
        if needs_base {
            let start = self.base(lineage, files, &mut report)?;
            report.seqno = report.seqno.max(start - 1);
        }
        Ok(report)
    }

    /// Returns all shipments, in order.
    ///
    /// # Errors
    /// [`BackupError::Damaged`](crate::BackupError::Damaged) if the head of one is damaged,
    /// [`Error::Io`] if one cannot be read.
    pub fn shipments(&self) -> Result<Vec<Shipment>> {
        self.shipment_numbers()?.into_iter().map(|first| Ok(self.shipment(first)?.0)).collect()
    }

    /// The first seqnos of all shipments.
    pub(crate) fn shipment_numbers(&self) -> Result<Vec<Seqno>> {
        let names = self.storage.list()?;
        let mut numbers: Vec<_> =
            names.iter().filter_map(|name| Shipment::first_in(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Reads the head of a shipment. Returns where its frames start, too.
    pub(crate) fn shipment(&self, first: Seqno) -> Result<(Shipment, u64)> {
        let name = Shipment::name(first);
        let file = self.storage.open(&name)?;
        let bytes = file.len()?;
        let mut head = vec![0; bytes.min(64 << 10) as usize];
        loop {
            file.read_exact_at(0, &mut head).map_err(|error| self.read_failed(&name, error))?;
            match Shipment::decode_head(&head, first) {
                Ok((shipment, start)) if start as u64 + shipment.bytes() == bytes => {
                    return Ok((shipment, start as u64));
                }
                Ok(_) => {
                    return Err(self.damaged(&name, "it is truncated, or goes on after its end"));
                }
                Err(what) if head.len() as u64 == bytes || head.len() >= HEAD_BYTES_MAX => {
                    return Err(self.damaged(&name, what));
                }
                Err(_) => head.resize(bytes.min(4 * head.len() as u64) as usize, 0),
            }
        }
    }

    /// The seqnos after which shipments may go on, ascending: that of the newest shipment, and those of backups after
    /// it. The first one after which there is a log leaves the fewest points in time that cannot be restored.
    ///
    /// The log after them is kept for the consumer, which has acknowledged `acknowledged`. They are of the history of the
    /// database with this lineage.
    fn ends_of_chain(&self, acknowledged: Seqno, lineage: &Lineage) -> Result<Vec<Seqno>> {
        let openings = noted(&lineage.openings);
        let is_of_it = |earlier: &Openings, through| has(&openings, earlier, through);
        let shipped = self.newest_shipped(acknowledged, &is_of_it)?;
        let after = shipped.map_or(acknowledged, |last| last + 1);
        let mut ends: Vec<Seqno> = shipped.into_iter().collect();
        for backup in self.backups()? {
            let end = self.flushed_through(&backup)?;
            if is_of_it(&backup.openings, end) && end >= after {
                ends.push(end);
            }
        }
        ends.sort_unstable();
        Ok(ends)
    }

    /// The end of the newest shipment of a history, if it is not before `acknowledged`, and the shipments can be
    /// restored with a backup.
    fn newest_shipped(
        &self,
        acknowledged: Seqno,
        is_of_history: &dyn Fn(&Openings, Seqno) -> bool,
    ) -> Result<Option<Seqno>> {
        for first in self.shipment_numbers()?.into_iter().rev() {
            let (shipment, _) = self.shipment(first)?;
            let last = shipment.last;
            // Others are of a history whose end the database has lost.
            if is_of_history(&shipment.openings, last) {
                let is_usable = last >= acknowledged && self.has_backup_through(last)?;
                return Ok(is_usable.then_some(last));
            }
        }
        Ok(None)
    }

    /// Whether settings of keyspaces, such as the time to live, have changed since the newest backup. They are
    /// in no log.
    fn lacks_settings(&self, db: &Db) -> Result<bool> {
        let Some(newest) = self.backups()?.pop() else { return Ok(true) };
        let had = self.settings_of(&newest)?;
        // The log has those that a keyspace was created with, except its time to live.
        let differ = |now: &KeyspaceInfo| match had.get(&now.id) {
            Some(settings) => *settings != now.settings,
            None => now.settings.ttl.is_some(),
        };
        Ok(db.keyspaces().iter().any(differ))
    }

    fn has_backup_through(&self, seqno: Seqno) -> Result<bool> {
        Ok(self.backups()?.iter().any(|backup| backup.seqno <= seqno))
    }

    /// Makes a backup. Returns the first seqno that its tables may lack, with which a log starts.
    fn base(
        &self,
        lineage: &Lineage,
        files: &mut dyn FnMut() -> Result<LiveFiles>,
        report: &mut ShipReport,
    ) -> Result<Seqno> {
        let files = files()?.noted_openings(lineage.openings.clone());
        let made = self.back_up_files(&files, &mut |_| true)?;
        report.backup = Some(made.number);
        Ok(files.flushed_through() + 1)
    }

    /// Ships all after the first of `ends` after which there is a log. `None` if there is none.
    fn ship_after(
        &self,
        ends: &[Seqno],
        source: Source<'_>,
        report: &mut ShipReport,
    ) -> Result<Option<(Seqno, bool)>> {
        for &end in ends {
            // After a part of the log that was there, before a gap.
            if end < report.seqno {
                continue;
            }
            match self.ship_from(source, end + 1, report) {
                Err(Error::Changes(error)) if is_gap(&error) => {}
                shipped => return shipped.map(Some),
            }
        }
        Ok(None)
    }

    /// Ships all from the seqno `start` on. Returns the last seqno that the repository has then, and whether there was an ingest.
    fn ship_from(
        &self,
        Source { db, lineage, through }: Source<'_>,
        start: Seqno,
        report: &mut ShipReport,
    ) -> Result<(Seqno, bool)> {
        let _lock = self.storage.lock()?;
        self.claim(db.identity())?;
        self.remove_partial_files()?;
        let mut pieces = db.log_pieces(start)?.through(through);
        let (mut last, mut has_ingest) = (start - 1, false);
        loop {
            let mut batch: Vec<LogPiece> = Vec::new();
            let mut bytes = 0;
            let mut is_end = true;
            while let Some(piece) = pieces.try_next()? {
                bytes += piece.bytes.len();
                let ends = piece.ends.last().is_some_and(|(_, seqno)| *seqno == piece.last_seqno);
                batch.push(piece);
                if bytes >= SHIPMENT_BYTES && ends {
                    is_end = false;
                    break;
                }
            }
            if let (Some(first), Some(final_piece)) = (batch.first(), batch.last()) {
                let (first, through) = (first.first_seqno, final_piece.last_seqno);
                has_ingest |= batch.iter().any(|piece| !piece.ingests.is_empty());
                let (events, known_from) = db.keyspace_events(first - 1)?;
                if known_from >= first {
                    let wanted = first;
                    return Err(ChangesError::InsideBatch { wanted, next: known_from + 1 }.into());
                }
                self.write_shipment(lineage, &batch, &events)?;
                report.shipments += 1;
                report.bytes += bytes as u64;
                report.seqno = through;
                last = through;
            }
            if is_end {
                return Ok((last, has_ingest));
            }
        }
    }

    fn write_shipment(&self, lineage: &Lineage, batch: &[LogPiece], events: &[u8]) -> Result<()> {
        let describe = |piece: &LogPiece| Piece {
            epoch: piece.epoch,
            header: hex(&piece.header),
            offset: piece.offset,
            bytes: piece.bytes.len() as u64,
            crc32c: crc32c(&piece.bytes),
            first: piece.first_seqno,
            last: piece.last_seqno,
            ends: piece.ends.clone(),
        };
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return Ok(()) };
        let shipment = Shipment {
            database: format!("{:016x}", lineage.database),
            made: self.clock.calendar().as_millis() as u64,
            first: first.first_seqno,
            last: last.last_seqno,
            ingests: batch.iter().flat_map(|piece| piece.ingests.iter().copied()).collect(),
            keyspaces: hex(events),
            pieces: batch.iter().map(describe).collect(),
            openings: noted(&lineage.openings),
        };
        let name = Shipment::name(shipment.first);
        let partial = format!("{name}{PARTIAL}");
        self.remove_if_there(&partial)?;
        let mut file = self.storage.create(&partial, WriteHint::of(FileKind::Log))?;
        let written = file.append(shipment.encode_head().as_bytes()).and_then(|()| {
            batch.iter().try_for_each(|piece| file.append(&piece.bytes))?;
            file.sync()
        });
        drop(file);
        let installed = written.and_then(|()| self.storage.rename(&partial, &name));
        if installed.is_err() {
            let _ = self.storage.remove(&partial);
        }
        installed.and_then(|()| self.storage.sync_names())
    }
}

/// Whether the log lacks what was to be shipped, so that a backup is needed.
fn is_gap(error: &ChangesError) -> bool {
    matches!(
        error,
        ChangesError::Gone { .. } | ChangesError::InsideBatch { .. } | ChangesError::NotYet { .. }
    )
}
