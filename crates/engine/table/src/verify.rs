//! Reads a whole table and checks what a reader takes on trust: every checksum, the order of the
//! versions, the separators, the filter, and that the properties are true.

use crate::block::Block;
use crate::block_cursor::BlockCursor;
use crate::filter::Filter;
use crate::index::Index;
use crate::properties::Properties;
use crate::reader::Table;
use crate::sketch::Sketches;
use crate::table_index::TableIndex;
use esker_base::key::compare_versions;
use esker_base::{Error, Kind, Seqno, ValuePlace, combined, hash64, split_expiry};
use std::cmp::Ordering;
use std::sync::Arc;

/// What is gathered while all blocks are read.
struct TableVerifier {
    /// The version read last, of whatever block.
    last: Option<(Vec<u8>, Seqno)>,
    found: Properties,
    sketches: Sketches,
    /// As older writers made them: a delete counted as the bytes of its key.
    older_sketches: Sketches,
    /// Whether some block could not be read, so that the totals prove nothing.
    incomplete: bool,
}

impl Table {
    /// Reads everything from the file, past the cache, and reports everything that is corrupt; each
    /// report names the place. Returns the number of versions read.
    pub fn verify(&self, report: &mut dyn FnMut(Error)) -> u64 {
        let trusted = self.properties();
        let mut audit = TableVerifier {
            last: None,
            found: Properties::before_first(trusted.keyspace, trusted.level, trusted.file_id),
            sketches: Sketches::default(),
            older_sketches: Sketches::default(),
            incomplete: false,
        };
        self.verify_sections(report);
        match &self.index {
            TableIndex::Whole(index, filter) => {
                let is_here = |_: &[u8], _| true;
                self.verify_blocks((index, filter, 0), &is_here, &mut audit, report);
            }
            TableIndex::Parts(it) => {
                for at in 0..it.parts.len() {
                    let mut damaged_filter = None;
                    match self.read_part(&it.parts, at, |damage| damaged_filter = Some(damage)) {
                        Ok(part) => {
                            let start = it.parts.data_of(at).start;
                            let is_here = |key: &[u8], seqno| it.parts.find(key, seqno) == at;
                            let index = (&part.index, &part.filter, start);
                            self.verify_blocks(index, &is_here, &mut audit, report);
                        }
                        Err(error) => {
                            audit.incomplete = true;
                            report(error);
                        }
                    }
                    damaged_filter.into_iter().for_each(&mut *report);
                }
            }
        }
        let entries = audit.found.entries;
        if !audit.incomplete {
            self.verify_properties(audit, report);
        }
        entries
    }

    /// Checks the blocks of an index, the first of which starts so far from the table's start. `is_here` says whether
    /// a version belongs to that index.
    fn verify_blocks(
        &self,
        (index, filter, start): (&Index, &Filter, u64),
        is_here: &dyn Fn(&[u8], Seqno) -> bool,
        audit: &mut TableVerifier,
        report: &mut dyn FnMut(Error),
    ) {
        for n in 0..index.len() {
            let place = self.in_file(start, index.block(n));
            let is_found = |key: &[u8], seqno| index.find(key, seqno) == n && is_here(key, seqno);
            let checked = self
                .read_block(&place)
                .and_then(|block| self.verify_block(place.start, &block, &is_found, filter, audit));
            if let Err(error) = checked {
                audit.incomplete = true;
                report(error);
            }
        }
    }

    /// Opens the table a second time, since what is in memory was read long ago.
    fn verify_sections(&self, report: &mut dyn FnMut(Error)) {
        let source = &self.source;
        let again = Table::open(
            source.file.clone(),
            source.file_id,
            source.offset,
            self.bytes,
            Arc::new(crate::BlockCache::new(0)),
        );
        match again {
            Ok(again) if again.properties() == self.properties() => {}
            Ok(_) => report(source.damaged(source.offset, "table: changed since it was opened")),
            Err(error) => report(error),
        }
    }

    fn verify_block(
        &self,
        start: u64,
        block: &Block,
        is_found: &dyn Fn(&[u8], Seqno) -> bool,
        filter: &Filter,
        audit: &mut TableVerifier,
    ) -> Result<(), Error> {
        let damaged = |what: &str| Err(self.source.damaged(start, format!("data block: {what}")));
        if let Err(bad) = block.check_restarts() {
            return Err(self.bad_entry_at(start, bad));
        }
        let mut position = BlockCursor::new();
        let mut more = position.seek_first(block).map(|()| true);
        loop {
            match more {
                Ok(true) => {}
                Ok(false) => break,
                Err(bad) => return Err(self.bad_entry_at(start, bad)),
            }
            let version = (position.key(), position.seqno());
            if audit.last.as_ref().is_some_and(|(key, seqno)| {
                compare_versions((key, *seqno), version) != Ordering::Less
            }) {
                return damaged("versions out of order");
            }
            if !is_found(version.0, version.1) {
                return damaged("a version outside the block's separators");
            }
            if !filter.may_contain(hash64(version.0)) {
                return damaged("a key that the filter denies");
            }
            let value = position.value();
            let is_combined = position.kind() == Kind::Combined;
            if is_combined && combined::decode(version.1, block.slice(value.clone())).is_none() {
                return damaged("combined operands without their span");
            }
            if position.kind() == Kind::ExpiringPut
                && let Some((time, _)) = split_expiry(block.slice(value.clone()))
            {
                audit.found.count_expiry(time);
            }
            if position.kind() == Kind::Separated {
                match ValuePlace::decode(block.slice(value.clone())) {
                    Some(place) => audit.found.count_separated(&place),
                    None => return damaged("a value that is in no value file"),
                }
            }
            audit.note(version, position.kind(), value.len());
            more = position.next(block);
        }
        Ok(())
    }

    fn verify_properties(&self, mut audit: TableVerifier, report: &mut dyn FnMut(Error)) {
        let trusted = self.properties();
        let last = audit.last.as_ref().map(|(key, _)| &key[..]);
        audit.found.complete(last, self.tombstones());
        let mut sketches = [audit.sketches, audit.older_sketches];
        let level = trusted.sketches.theta.level();
        sketches.iter_mut().for_each(|sketches| sketches.theta.seal_at(level));
        let [present, older] = sketches;
        let is_older = *trusted.sketches == older;
        audit.found.sketches = Arc::new(if is_older { older } else { present });
        audit.found.compression = trusted.compression;
        // Nothing else in the table tells it.
        audit.found.origin.clone_from(&trusted.origin);
        audit.found.ingested_after = trusted.ingested_after;
        audit.found.fingerprint_bits = self.fingerprint_bits();
        // Older writers did not tell it.
        if trusted.oldest_delete.is_none() {
            audit.found.oldest_delete = None;
        }
        audit.found.data_blocks = self.index.blocks() as u64;
        audit.found.data_bytes = self.data_bytes();
        if audit.found != *trusted {
            let what = format!("properties: {trusted:?} stored, {:?} found", audit.found);
            report(self.source.damaged(self.source.offset, what));
        }
    }
}

impl TableVerifier {
    fn note(&mut self, (key, seqno): (&[u8], Seqno), kind: Kind, value_len: usize) {
        let found = &mut self.found;
        if found.entries == 0 {
            found.smallest = key.to_vec();
        }
        match &mut self.last {
            Some((last, last_seqno)) if last == key => *last_seqno = seqno,
            last => {
                *last = Some((key.to_vec(), seqno));
                found.keys += 1;
                let (hash, bytes) = (hash64(key), (key.len() + value_len) as u64);
                self.sketches.insert(hash, if kind == Kind::Delete { 0 } else { bytes });
                self.older_sketches.insert(hash, bytes);
            }
        }
        found.count_version(key.len(), seqno, kind, value_len);
    }
}
