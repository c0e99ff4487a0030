//! Copies versions that are in no table into a block, so that a [`BlockScan`] reads them like others.

use crate::block::{Block, common_prefix};
use crate::block_builder::BlockBuilder;
use crate::block_scan::BlockScan;
use esker_base::{Kind, Seqno};

/// Versions in order, to be lent as one block.
#[derive(Default)]
pub struct LentVersions {
    builder: BlockBuilder,
}

impl LentVersions {
    /// Adds a version, which comes after all others.
    pub fn add(&mut self, key: &[u8], seqno: Seqno, kind: Kind, value: &[u8]) {
        let common = common_prefix(self.builder.last_key(), key);
        self.builder.add(key, common, seqno, kind, value);
    }

    /// Returns the key last added.
    pub fn last_key(&self) -> &[u8] {
        self.builder.last_key()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.builder.is_empty()
    }

    /// Returns the size of the block.
    pub fn bytes(&self) -> usize {
        self.builder.bytes()
    }

    /// Starts `scan` at the first version. None is left. Returns false if there was none.
    pub fn start(&mut self, snapshot: Seqno, scan: &mut BlockScan) -> bool {
        let Some(block) = self.take() else { return false };
        scan.start_before(&block, snapshot);
        scan.advance().is_ok()
    }

    /// Takes `scan` on to the versions. None is left. Returns false if there was none.
    pub fn go_on(&mut self, scan: &mut BlockScan) -> bool {
        let Some(block) = self.take() else { return false };
        scan.go_on(&block, block.entries_end(), 0);
        true
    }

    fn take(&mut self) -> Option<Block> {
        if self.is_empty() {
            return None;
        }
        let block = Block::new(self.builder.finish().into());
        self.builder.clear();
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScanEnd;

    /// What a scan reads up to the end of its block.
    fn rest(scan: &mut BlockScan) -> Vec<(Vec<u8>, Seqno, Vec<u8>)> {
        let mut found = Vec::new();
        loop {
            match scan.advance() {
                Ok(()) => found.push((scan.key().to_vec(), scan.seqno(), scan.value().to_vec())),
                Err(end) => {
                    assert_eq!(end, ScanEnd::Block);
                    return found;
                }
            }
        }
    }

    #[test]
    fn a_scan_reads_what_is_lent_and_goes_on_with_more() {
        let (mut versions, mut scan) = (LentVersions::default(), BlockScan::default());
        assert!(!versions.start(9, &mut scan));
        versions.add(b"", 3, Kind::Put, b"none");
        versions.add(b"key1", 9, Kind::Put, b"one");
        versions.add(b"key2", 1, Kind::Delete, b"");
        assert!(versions.bytes() > 7 && versions.last_key() == b"key2");
        assert!(versions.start(9, &mut scan));
        assert_eq!((scan.key(), scan.seqno(), scan.value()), (&b""[..], 3, &b"none"[..]));
        assert!(scan.is_decided());
        let expected = [(b"key1".to_vec(), 9, b"one".to_vec()), (b"key2".to_vec(), 1, vec![])];
        assert_eq!(rest(&mut scan), expected);
        assert_eq!(scan.kind(), Kind::Delete);

        assert!(versions.is_empty() && !versions.go_on(&mut scan));
        versions.add(b"key2b", 4, Kind::Put, &[7; 5000]);
        assert!(versions.go_on(&mut scan));
        assert_eq!(rest(&mut scan), [(b"key2b".to_vec(), 4, vec![7; 5000])]);
    }

    /// The key of the scan is of an earlier use.
    #[test]
    fn a_scan_that_is_started_again_reads_the_same_key_again() {
        let (mut versions, mut scan) = (LentVersions::default(), BlockScan::default());
        for seqno in [5, 2] {
            versions.add(b"key", seqno, Kind::Put, b"value");
            assert!(versions.start(9, &mut scan));
            assert_eq!((scan.key(), scan.seqno()), (&b"key"[..], seqno));
        }
    }
}
