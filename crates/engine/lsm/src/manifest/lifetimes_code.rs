//! How the lifetimes of tables are encoded in manifests.

use crate::version::table_lifetimes::{LifetimeEstimator, TableBirth};
use crate::version::{LEVELS, TableId};
use esker_base::KeyspaceId;
use esker_base::coding::{put_varint64, take_u8, take_varint32, take_varint64};

type Lives = Box<[LifetimeEstimator; LEVELS]>;
type Born = Vec<(TableId, TableBirth)>;

/// Appends the lifetimes of the tables of `keyspace`, and when the present ones were written.
pub(super) fn encode_lifetimes(
    keyspace: KeyspaceId,
    lives: &[LifetimeEstimator; LEVELS],
    born: &[(TableId, TableBirth)],
    out: &mut Vec<u8>,
) {
    put_varint64(out, u64::from(keyspace.0));
    let known = || lives.iter().enumerate().filter(|(_, lives)| !lives.is_empty());
    put_varint64(out, known().count() as u64);
    for (level, lives) in known() {
        put_varint64(out, level as u64);
        lives.encode(out);
    }
    put_varint64(out, born.len() as u64);
    for (id, born) in born {
        put_varint64(out, id.file);
        put_varint64(out, id.offset);
        put_varint64(out, born.at);
        out.push(born.level);
    }
}

/// Takes what [`encode_lifetimes`] appended.
pub(super) fn decode_lifetimes(input: &mut &[u8]) -> Option<(KeyspaceId, Lives, Born)> {
    let keyspace = KeyspaceId(take_varint32(input)?);
    let mut lives = Lives::default();
    let mut above = None;
    for _ in 0..take_varint64(input)? {
        let level = Some(take_varint32(input)? as usize).filter(|level| above < Some(*level))?;
        // Programs write no level without a death.
        let known = LifetimeEstimator::decode(input)?;
        *lives.get_mut(level)? = Some(known).filter(|known| !known.is_empty())?;
        above = Some(level);
    }
    let mut born = Vec::new();
    for _ in 0..take_varint64(input)? {
        let id = TableId { file: take_varint64(input)?, offset: take_varint64(input)? };
        let (at, level) = (take_varint64(input)?, take_u8(input)?);
        born.push((
            id,
            TableBirth { at, level: Some(level).filter(|level| usize::from(*level) < LEVELS)? },
        ));
    }
    Some((keyspace, lives, born))
}
