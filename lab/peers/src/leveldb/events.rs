//! What LevelDB wrote and what it is busy with, from its information log.
//!
//! The property `leveldb.stats` rounds to whole megabytes and does not distinguish flushes from compactions.
//! The file `LOG`, which LevelDB starts anew at each open and writes line by line, has each flush and
//! each compaction with its bytes:
//!
//! ```text
//! 2026/01/31-10:00:00.123456 140000000000000 Level-0 table #7: started
//! 2026/01/31-10:00:00.223456 140000000000000 Level-0 table #7: 1234 bytes OK
//! 2026/01/31-10:00:00.323456 140000000000000 Compacting 4@0 + 1@1 files
//! 2026/01/31-10:00:00.423456 140000000000000 Generated table #8@1: 100 keys, 2345 bytes
//! 2026/01/31-10:00:00.523456 140000000000000 compacted to: files[ 0 1 0 0 0 0 0 ]
//! ```

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Totals of what the log has said so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Events {
    pub(super) flush_bytes: u64,
    pub(super) compaction_bytes: u64,
    /// Flushes and compactions that began and have not ended.
    pub(super) running: u64,
}

impl Events {
    /// Takes in a line. What it does not know says nothing of writes.
    fn take_in(&mut self, line: &str) {
        if let Some((_, flush)) = line.split_once("Level-0 table #") {
            match bytes_in(flush) {
                Some(bytes) => {
                    self.flush_bytes += bytes;
                    self.running = self.running.saturating_sub(1);
                }
                None => self.running += 1,
            }
        } else if let Some((_, table)) = line.split_once("Generated table #") {
            self.compaction_bytes += bytes_in(table).unwrap_or(0);
        } else if line.contains(" Compacting ") {
            self.running += 1;
        } else if line.contains(" compacted to: ") {
            self.running = self.running.saturating_sub(1);
        }
    }
}

/// The number before the word "bytes".
fn bytes_in(text: &str) -> Option<u64> {
    let (before, _) = text.split_once(" bytes")?;
    before.rsplit(' ').next()?.parse().ok()
}

/// The log of an open database, read on from where it was left.
pub(super) struct EventLog {
    state: Mutex<State>,
}

struct State {
    file: File,
    /// What was read of a line whose end is not written yet.
    rest: Vec<u8>,
    events: Events,
}

impl EventLog {
    /// The log of the database that was just opened in `dir`.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let mut file = File::open(dir.join("LOG"))?;
        file.seek(SeekFrom::Start(0))?;
        let state = State { file, rest: Vec::new(), events: Events::default() };
        Ok(EventLog { state: Mutex::new(state) })
    }

    /// All that the log says by now. If it can't be read on, what it said before.
    pub(super) fn read(&self) -> Events {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { file, rest, events } = &mut *state;
        // What was read before an error is kept in `rest`, and read on from next time.
        let _ = file.read_to_end(rest);
        let whole = rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        for line in rest[..whole].split(|&byte| byte == b'\n') {
            events.take_in(&String::from_utf8_lossy(line));
        }
        rest.drain(..whole);
        *events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn flushes_and_compactions_are_counted_apart() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = File::create(dir.path().join("LOG")).unwrap();
        let log = EventLog::open(dir.path()).unwrap();
        let mut say = |text: &str| write!(file, "{text}").unwrap();
        let at = "2026/01/31-10:00:00.123456 14000 ";

        say(&format!("{at}Level-0 table #7: started\n{at}Level-0 table #7: 12"));
        assert_eq!(log.read(), Events { running: 1, ..Events::default() });
        say(&format!("34 bytes OK\n{at}Compacting 4@0 + 1@1 files\n"));
        say(&format!("{at}Generated table #8@1: 100 keys, 2345 bytes\n"));
        let busy = Events { flush_bytes: 1234, compaction_bytes: 2345, running: 1 };
        assert_eq!(log.read(), busy);
        say(&format!("{at}Compacted 4@0 + 1@1 files => 2345 bytes\n"));
        say(&format!("{at}compacted to: files[ 0 1 0 0 0 0 0 ]\n"));
        assert_eq!(log.read(), Events { running: 0, ..busy });
    }
}
