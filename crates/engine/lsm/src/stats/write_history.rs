//! What a keyspace itself has written since a point in time.
//!
//! Tables know points in time as seqnos, which all keyspaces share, and a neighbour's writes are no reason to
//! merge this keyspace's deletes. So a history notes at each flush how many bytes of keys and values
//! were the keyspace's own. Between two flushes they are taken to have come evenly.
//!
//! A history is kept in memory only and begins where tables ended when the database was opened. Before
//! that every write counts as the keyspace's own, so what is older is never taken for younger than it
//! is.

use esker_base::Seqno;

/// With more marks than this a history is thinned out.
const MARKS_MAX: usize = 1024;

/// See the file's head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteHistory {
    /// Ascending in both. The first is where it begins, with no bytes.
    marks: Vec<Mark>,
}

/// So many bytes were written up to here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    through: Seqno,
    bytes: u64,
    /// The id of the first file that may have been made later.
    file: u64,
}

impl WriteHistory {
    /// One that begins after `seqno`.
    pub fn after(seqno: Seqno) -> Self {
        WriteHistory { marks: vec![Mark { through: seqno, bytes: 0, file: 0 }] }
    }

    /// Notes that `bytes` of the writes since the last note, up to `through`, were the keyspace's. Files
    /// made after the flush began have ids from `file` on.
    pub fn note(&mut self, through: Seqno, bytes: u64, file: u64) {
        let last = self.last();
        debug_assert!(through >= last.through, "flushes come in order");
        self.marks.push(Mark { through, bytes: last.bytes + bytes, file });
        if self.marks.len() > MARKS_MAX {
            let (mut at, last) = (0usize, self.marks.len() - 1);
            self.marks.retain(|_| {
                let stays = at.is_multiple_of(2) || at == last;
                at += 1;
                stays
            });
        }
    }

    /// About how many bytes were written after `seqno`, if a write takes `mean_bytes`.
    pub fn bytes_since(&self, seqno: Seqno, mean_bytes: f64) -> f64 {
        let before = self.marks[0].through.saturating_sub(seqno) as f64 * mean_bytes;
        before + self.last().bytes as f64 - self.bytes_at(seqno)
    }

    /// About how many bytes were written after the table file `file` was made. One of before the first
    /// flush that was noted is as old as can be.
    pub fn bytes_since_file(&self, file: u64) -> f64 {
        match self.marks.partition_point(|mark| mark.file <= file) {
            0 | 1 => f64::INFINITY,
            newer => (self.last().bytes - self.marks[newer - 1].bytes) as f64,
        }
    }

    fn bytes_at(&self, seqno: Seqno) -> f64 {
        let at = self.marks.partition_point(|mark| mark.through < seqno);
        let (Some(newer), Some(older)) = (self.marks.get(at), self.marks[..at].last()) else {
            return if at == 0 { 0.0 } else { self.last().bytes as f64 };
        };
        let part = (seqno - older.through) as f64 / (newer.through - older.through) as f64;
        older.bytes as f64 + part * (newer.bytes - older.bytes) as f64
    }

    fn last(&self) -> Mark {
        self.marks[self.marks.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_keyspace_s_own_bytes_count() {
        let mut history = WriteHistory::after(100);
        history.note(200, 1000, 1);
        history.note(1_000_200, 10, 2);
        history.note(1_000_300, 500, 3);
        let since = |seqno| history.bytes_since(seqno, 8.0);
        assert_eq!(
            [100, 200, 1_000_200, 1_000_300, 2_000_000].map(since),
            [1510.0, 510.0, 500.0, 0.0, 0.0]
        );
        assert_eq!(since(150), 1010.0, "half of a flush");
    }

    #[test]
    fn before_it_begins_every_write_counts() {
        let mut history = WriteHistory::after(100);
        assert_eq!(history.bytes_since(40, 8.0), 480.0);
        history.note(200, 1000, 1);
        assert_eq!(history.bytes_since(40, 8.0), 1480.0);
    }

    #[test]
    fn a_file_is_as_old_as_the_flushes_that_began_after_it() {
        let mut history = WriteHistory::after(100);
        assert_eq!(history.bytes_since_file(7), f64::INFINITY, "nobody knows");
        history.note(200, 1000, 10);
        history.note(300, 500, 20);
        history.note(400, 70, 30);
        let since = [9, 10, 19, 20, 29, 30, 31].map(|file| history.bytes_since_file(file));
        assert_eq!(since, [f64::INFINITY, 570.0, 570.0, 70.0, 70.0, 0.0, 0.0]);
    }

    #[test]
    fn a_long_history_is_thinned_out_and_still_adds_up() {
        let mut history = WriteHistory::after(0);
        (1..=10_000).for_each(|n| history.note(100 * n, 1000, n));
        assert!(history.marks.len() <= MARKS_MAX);
        for seqno in [0, 400_050, 999_000, 1_000_000] {
            let expected = (1_000_000 - seqno) as f64 * 10.0;
            assert!((history.bytes_since(seqno, 8.0) - expected).abs() < 1.0, "{seqno}");
        }
    }
}
