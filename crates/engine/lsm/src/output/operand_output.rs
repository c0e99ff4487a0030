//! Folds the operands of a key on their way to a table.
//!
//! No snapshot separates versions of one stripe. So within a stripe:
//!
//! ```text
//! operands, then a put            one put: their merge
//! operands, then a delete         one put: their merge on no value
//! operands, then an expiring put  as few operands as they combine to, and the put
//! operands, then nothing older    the same, where nothing older is beneath the output
//! operands, and no base known     as few operands as they combine to
//! ```
//!
//! The result has the sequence number of the newest operand, also at the bottom: so a repair can
//! identify the operands that are in it. If the operator is missing or fails, all
//! stay as they are: nothing is lost, and a read gets the error.

use super::output_files::add;
use super::value_output::ValueOutput;
use super::version_filter::{Asked, Decision, VersionFilter};
use crate::fold::combining::{Combined, Combining};
use crate::fold::expiry::living;
use crate::fold::merger::Merger;
use crate::fold::values::Values;
use crate::fold::{Verdict, verdict};
use crate::user_keys::KeyFormat;
use esker_base::{EntryCursor, Kind, Result, Seqno};
use esker_table::TableWriter;

type Version = (Seqno, Kind, Vec<u8>);

/// The operands of a stripe that waits for its base.
struct OpenStripe {
    stripe: usize,
    operands: Combining,
}

/// What is written of a key.
struct KeyOutput {
    merger: Merger,
    key: Vec<u8>,
    open: Option<OpenStripe>,
    /// Newest first.
    versions: Vec<Version>,
}

/// Writes what stays of the key at `cursor`, from an operand on that `fold` has judged and
/// counted. Leaves the cursor behind the key.
#[cold]
pub(super) fn write_key<C: EntryCursor + ?Sized>(
    writer: &mut TableWriter<'_>,
    cursor: &mut C,
    (fold, values): (&mut VersionFilter, &mut ValueOutput<'_>),
    (versions_in, versions_out): (&mut u64, &mut u64),
) -> Result<()> {
    let none = || Merger::new("", None, None, KeyFormat::AsGiven);
    let mut out = KeyOutput {
        merger: fold.merger.clone().unwrap_or_else(none),
        key: cursor.key().to_vec(),
        open: None,
        versions: Vec::new(),
    };
    let mut newer = cursor.seqno();
    out.open(fold, (newer, cursor.kind(), cursor.value()))?;
    cursor.next()?;
    while cursor.valid() && cursor.key() == &out.key[..] {
        *versions_in += 1;
        fold.see((out.key.len() + cursor.value().len()) as u64);
        // A rebuild may meet a version in a table and in a log.
        let seqno = cursor.seqno();
        if seqno < std::mem::replace(&mut newer, seqno) {
            out.add((fold, values), (seqno, cursor.kind(), cursor.value()))?;
        }
        cursor.next()?;
    }
    out.close_without_base(fold);
    for (seqno, kind, value) in &out.versions {
        add(writer, values, &out.key, (*seqno, *kind, value))?;
        fold.keep_key();
        *versions_out += 1;
    }
    Ok(())
}

impl KeyOutput {
    fn open(&mut self, fold: &VersionFilter, operand: (Seqno, Kind, &[u8])) -> Result<()> {
        let mut operands = Combining::default();
        operands.push_older(&self.merger, &self.key, operand)?;
        self.open = Some(OpenStripe { stripe: fold.stripe_of(operand.0).0, operands });
        Ok(())
    }

    fn add(
        &mut self,
        (fold, values): (&mut VersionFilter, &ValueOutput<'_>),
        version: (Seqno, Kind, &[u8]),
    ) -> Result<()> {
        let (seqno, kind, value) = version;
        let (stripe, is_covered) = fold.stripe_of(seqno);
        match &mut self.open {
            Some(open) if open.stripe == stripe => match verdict(kind, || is_covered) {
                Verdict::Operand => {
                    open.operands.push_older(&self.merger, &self.key, version)?;
                }
                Verdict::Value => self.close(fold, Some((value, value)), Some((seqno, kind))),
                Verdict::Separated => match values.read(value) {
                    Ok(base) => self.close(fold, Some((&base, value)), Some((seqno, kind))),
                    // Readers get the error, and all stays for a later compaction or a repair.
                    Err(_) => self.close_over(version),
                },
                Verdict::Expiring if living(value, &fold.now).is_some() => {
                    self.close_over(version);
                }
                Verdict::Expiring => self.close(fold, None, Some((seqno, Kind::Delete))),
                Verdict::Absent if is_covered => self.close(fold, None, None),
                Verdict::Absent => self.close(fold, None, Some((seqno, kind))),
            },
            _ => {
                self.close_without_base(fold);
                match fold.judge(seqno, kind, value) {
                    Decision::Drop => {}
                    // A snapshot sees a stripe that is not the first, so no filter is asked.
                    Decision::Keep(seqno) | Decision::Ask(seqno) => {
                        self.versions.push((seqno, kind, value.to_vec()));
                    }
                    Decision::Delete(seqno) => {
                        self.versions.push((seqno, Kind::Delete, Vec::new()));
                    }
                    Decision::Operand => self.open(fold, version)?,
                }
            }
        }
        Ok(())
    }

    /// Merges the open stripe on its base, a value and what is stored of it. `version` is the base's own,
    /// if it has one.
    fn close(
        &mut self,
        fold: &mut VersionFilter,
        base: Option<(&[u8], &[u8])>,
        version: Option<(Seqno, Kind)>,
    ) {
        let Some(OpenStripe { stripe, operands }) = self.open.take() else { return };
        let everybody_sees_it = fold.everybody_sees(stripe);
        if let Ok(value) =
            self.merger.merge_all(&self.key, base.map(|(value, _)| value), &operands.oldest_first())
        {
            self.push_folded(fold, stripe, (operands.newest(), value));
            return;
        }
        self.keep(operands);
        let stored = base.map_or(&[][..], |(_, stored)| stored);
        let stays = |kind| base.is_some() || (!everybody_sees_it && kind == Kind::Delete);
        if let Some((seqno, kind)) = version.filter(|(_, kind)| stays(*kind)) {
            self.versions.push((seqno, kind, stored.to_vec()));
        }
    }

    /// Adds what operands were folded to, unless the compaction filter decides otherwise.
    fn push_folded(
        &mut self,
        fold: &mut VersionFilter,
        stripe: usize,
        (seqno, value): (Seqno, Vec<u8>),
    ) {
        let asked = match fold.asks(stripe) {
            true => fold.ask(&self.key, (seqno, Kind::Put, &value)),
            false => Asked::Keep,
        };
        match asked {
            Asked::Keep => self.versions.push((seqno, Kind::Put, value)),
            Asked::Replace(value) => self.versions.push((seqno, Kind::Put, value)),
            Asked::Delete => self.versions.push((seqno, Kind::Delete, Vec::new())),
            Asked::Drop => {}
        }
    }

    /// Ends the open stripe, whose operands stay with their base.
    fn close_over(&mut self, (seqno, kind, value): (Seqno, Kind, &[u8])) {
        let Some(OpenStripe { operands, .. }) = self.open.take() else { return };
        self.keep(operands);
        self.versions.push((seqno, kind, value.to_vec()));
    }

    /// Ends the open stripe, of which no base was met.
    fn close_without_base(&mut self, fold: &mut VersionFilter) {
        match self.open.take() {
            Some(open) if fold.everybody_sees(open.stripe) => {
                self.open = Some(open);
                self.close(fold, None, None);
            }
            Some(open) => self.keep(open.operands),
            None => {}
        }
    }

    fn keep(&mut self, operands: Combining) {
        let parts = operands.into_parts(&self.merger, &self.key).into_iter();
        self.versions.extend(parts.map(Combined::into_version));
    }
}
