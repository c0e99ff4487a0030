//! The cursor that MemTables, tables and merges of them share.

use crate::{Kind, Result, Seqno};

/// A position in an ordered set of versions of one keyspace: key ascending, seqno descending.
///
/// A new cursor is not valid until the first seek. After an error it is not valid. `key`, `seqno`,
/// `kind` and `value` may only be called while it is valid.
///
/// A cursor yields every version, deletes included; range tombstones travel separately, never in it.
pub trait EntryCursor: Send {
    /// Whether the cursor is on a version.
    fn valid(&self) -> bool;
    /// Goes to the first version of all.
    fn seek_first(&mut self) -> Result<()>;
    /// Goes to the last version of all.
    fn seek_last(&mut self) -> Result<()>;
    /// Goes to the first version at or after `(key, seqno)`. With `MAX_SEQNO` that is the newest
    /// version of `key`, or of the next key there is.
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()>;
    /// Whether many of its last seeks waited for a device.
    fn misses_seeks(&self) -> bool {
        false
    }
    /// Says that [`EntryCursor::seek`] with the same target is the next call, after calls of other cursors.
    /// A cursor that would wait for a device may begin to read. Until the seek, it may be invalid.
    fn begin_seek(&mut self, _key: &[u8], _seqno: Seqno) {}
    /// Goes to the last version strictly before `(key, seqno)`. With `MAX_SEQNO` that is the oldest
    /// version of the key before `key`.
    fn seek_before(&mut self, key: &[u8], seqno: Seqno) -> Result<()>;
    /// Goes one version on.
    fn next(&mut self) -> Result<()>;
    /// Goes one version back.
    fn prev(&mut self) -> Result<()>;
    /// The key of the version the cursor is on.
    fn key(&self) -> &[u8];
    /// Its seqno.
    fn seqno(&self) -> Seqno;
    /// Its kind, never [`Kind::RangeDelete`].
    fn kind(&self) -> Kind;
    /// Its value; empty for a delete.
    fn value(&self) -> &[u8];
}

impl<C: EntryCursor + ?Sized> EntryCursor for Box<C> {
    fn valid(&self) -> bool {
        (**self).valid()
    }
    fn seek_first(&mut self) -> Result<()> {
        (**self).seek_first()
    }
    fn seek_last(&mut self) -> Result<()> {
        (**self).seek_last()
    }
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        (**self).seek(key, seqno)
    }
    fn misses_seeks(&self) -> bool {
        (**self).misses_seeks()
    }
    fn begin_seek(&mut self, key: &[u8], seqno: Seqno) {
        (**self).begin_seek(key, seqno);
    }
    fn seek_before(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        (**self).seek_before(key, seqno)
    }
    fn next(&mut self) -> Result<()> {
        (**self).next()
    }
    fn prev(&mut self) -> Result<()> {
        (**self).prev()
    }
    fn key(&self) -> &[u8] {
        (**self).key()
    }
    fn seqno(&self) -> Seqno {
        (**self).seqno()
    }
    fn kind(&self) -> Kind {
        (**self).kind()
    }
    fn value(&self) -> &[u8] {
        (**self).value()
    }
}
