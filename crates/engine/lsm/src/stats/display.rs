//! Statistics as text.

use super::Stats;
use std::fmt;

/// Formats the most important statistics, one line per subject. The text may change between
/// releases; programs read the fields.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "writes: {} ({})", self.writes, Bytes(self.user_bytes))?;
        writeln!(f, "log: {}, {} segments", Bytes(self.log_bytes), self.logs)?;
        let (flushed, compacted) = (Bytes(self.flush_bytes), Bytes(self.compaction_bytes));
        writeln!(f, "flushes: {} ({flushed})", self.flushes)?;
        writeln!(f, "compactions: {} ({compacted} written)", self.compactions)?;
        writeln!(f, "write amplification: {:.2}", self.write_amplification())?;
        writeln!(f, "stalled: {:.3} s", self.stalled.as_secs_f64())?;
        writeln!(f, "tables: {} ({})", self.tables, Bytes(self.table_file_bytes))?;
        writeln!(f, "memtables: {} ({})", self.memtables, Bytes(self.memtable_bytes))?;
        let (used, capacity) = (Bytes(self.cache_bytes), Bytes(self.cache_capacity_bytes));
        let (hits, misses) = (self.cache_hits, self.cache_misses);
        writeln!(f, "block cache: {used} of {capacity}, {hits} hits, {misses} misses")?;
        write!(f, "snapshots: {}", self.snapshots)?;
        if !self.unreadable_tables.is_empty() {
            write!(f, "\nunreadable tables: {}", self.unreadable_tables.len())?;
        }
        if let Some(error) = &self.background_error {
            write!(f, "\nbackground error: {error}")?;
        }
        Ok(())
    }
}

/// A number of bytes in its largest binary unit.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.into_iter().find(|(shift, _)| self.0 >> shift > 0) {
            Some((shift, unit)) => {
                write!(f, "{:.1} {unit}", self.0 as f64 / (1u64 << shift) as f64)
            }
            None => write!(f, "{} B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_name_their_units_and_report_errors() {
        let background_error = Some("the disk is full".to_owned());
        let (writes, user_bytes, log_bytes) = (3, 1000, 3 << 20);
        let stats = Stats { writes, user_bytes, log_bytes, background_error, ..Stats::default() };
        let text = stats.to_string();
        assert!(text.starts_with("writes: 3 (1000 B)\nlog: 3.0 MiB, 0 segments\n"), "{text}");
        assert!(text.ends_with("\nbackground error: the disk is full"), "{text}");
        assert!(!Stats::default().to_string().contains("error"));
    }
}
