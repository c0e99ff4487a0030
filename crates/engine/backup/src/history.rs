//! Which backups and shipments are of one history.
//!
//! A database can lose its last writes: by a repair, by damage at the end of its log, or because its files were put
//! back from an earlier copy. Other writes get their sequence numbers then. So each backup and each shipment has the
//! openings of the database for writing that were known when it was made, each with the last write that it found.

use crate::record::Backup;
use crate::shipment::Shipment;
use esker_base::Seqno;
use esker_lsm::Opening;

/// Openings, the oldest first: the id in hexadecimal digits, and the last write that it found.
pub(crate) type Openings = Vec<(String, Seqno)>;

/// As a record or a shipment has them.
pub(crate) fn noted(openings: &[Opening]) -> Openings {
    openings.iter().map(|opening| (format!("{:016x}", opening.id), opening.after)).collect()
}

/// Whether a database with the openings `later` has all writes up to `through` of what was made when it had
/// `earlier`. False if it is not known.
pub(crate) fn has(later: &Openings, earlier: &Openings, through: Seqno) -> bool {
    let Some((last, _)) = earlier.last() else { return false };
    let known = later.iter().position(|(id, _)| id == last);
    known.is_some_and(|at| later[at + 1..].iter().all(|(_, after)| through <= *after))
}

/// The end of a backup and of the shipments that continue it.
pub(crate) struct End<'a> {
    pub(crate) seqno: Seqno,
    openings: &'a Openings,
    is_backup: bool,
}

impl<'a> End<'a> {
    pub(crate) fn of(backup: &'a Backup) -> End<'a> {
        End { seqno: backup.seqno, openings: &backup.openings, is_backup: true }
    }

    /// Whether `shipment` is of the same history, as far as is known.
    pub(crate) fn is_of_one_history_with(&self, shipment: &Shipment) -> bool {
        let (here, there) = (self.openings, &shipment.openings);
        here.is_empty()
            || there.is_empty()
            || has(there, here, self.seqno)
            // The backup is newer: it has all that was shipped before.
            || self.is_backup && has(here, there, shipment.last)
    }

    /// The end after `shipment`, too.
    pub(crate) fn after(self, shipment: &'a Shipment) -> End<'a> {
        let seqno = self.seqno.max(shipment.last);
        match shipment.openings.is_empty() {
            true => End { seqno, ..self },
            false => End { seqno, openings: &shipment.openings, is_backup: false },
        }
    }
}

/// Whether a database with these openings has gone on from `backup`. True if openings of one of the two are not
/// known: they were not recorded at first.
pub(crate) fn may_be_earlier(openings: &Openings, backup: &Backup) -> bool {
    openings.is_empty()
        || backup.openings.is_empty()
        || has(openings, &backup.openings, backup.seqno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_goes_on_unless_an_opening_lost_writes() {
        let openings = |all: &[(u64, Seqno)]| -> Openings {
            noted(&all.iter().map(|&(id, after)| Opening::new(id, after)).collect::<Vec<_>>())
        };
        let (first, lost) = (openings(&[(7, 10)]), openings(&[(7, 10), (8, 90)]));
        assert!(has(&first, &first, 100) && has(&lost, &first, 90) && has(&lost, &lost, 200));
        assert!(!has(&lost, &first, 91), "it has other writes from 91 on");
        assert!(!has(&first, &lost, 5) && !has(&first, &openings(&[]), 5), "it is not known");
    }
}
