//! What a load costs: bytes written by cause, and what the operating system says of the process.

use std::path::Path;
use std::time::Duration;

/// Totals of a store since it was opened. They only grow. What a store does not report is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Bytes of keys and values that users wrote, as a batch holds them: some five more for each entry, of
    /// all engines alike.
    pub user_bytes: u64,
    /// Bytes written to the log.
    pub log_bytes: Option<u64>,
    /// Those of them that were stored in persistent memory, past the system, which doesn't count them.
    pub pool_bytes: u64,
    /// How often the log was synced.
    pub log_syncs: Option<u64>,
    /// Bytes written to tables by flushes.
    pub flush_bytes: Option<u64>,
    /// Bytes written to tables by compactions.
    pub compaction_bytes: Option<u64>,
    /// Time that writers were throttled, summed over them, in microseconds.
    pub stall_us: Option<u64>,
    /// Point reads that a MemTable or another copy in DRAM answered, the block cache apart.
    pub dram_hits: Option<u64>,
    /// Point reads that went on from there. A store may count either, or both.
    pub dram_misses: Option<u64>,
    /// What became of the copies there, if they are a table of their own.
    pub copies: Option<Copies>,
    /// Writes by the memory that their MemTable is in, of a store that has some in either.
    pub placed: Option<Placed>,
    /// Blocks that were found in the block cache.
    pub cache_hits: Option<u64>,
    /// Blocks that were not.
    pub cache_misses: Option<u64>,
    /// Point reads that tables answered.
    pub table_hits: Option<TableReadStats>,
    /// Point reads that came to tables, none of which had the key.
    pub table_misses: Option<TableReadStats>,
    /// What all of these cost, whether they found their key or not.
    pub table_cost: Option<TableCost>,
}

/// What became of copies in DRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copies {
    /// Made by readers of what they found in tables.
    pub fills: u64,
    /// Dropped because something newer was written.
    pub invalidations: u64,
    /// Dropped for want of space.
    pub evictions: u64,
}

impl Copies {
    fn since(now: Option<Self>, earlier: Option<Self>) -> Option<Self> {
        let (now, earlier) = (now?, earlier?);
        Some(Copies {
            fills: now.fills.saturating_sub(earlier.fills),
            invalidations: now.invalidations.saturating_sub(earlier.invalidations),
            evictions: now.evictions.saturating_sub(earlier.evictions),
        })
    }
}

/// Entries written to MemTables, of which some are in DRAM and some in persistent memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Placed {
    /// To those in DRAM.
    pub dram_writes: u64,
    /// To those in persistent memory.
    pub pmem_writes: u64,
}

impl Placed {
    /// The part that went to persistent memory. `None` if nothing was written.
    pub fn pmem_share(&self) -> Option<f64> {
        let all = self.dram_writes + self.pmem_writes;
        (all > 0).then(|| self.pmem_writes as f64 / all as f64)
    }

    fn since(now: Option<Self>, earlier: Option<Self>) -> Option<Self> {
        let (now, earlier) = (now?, earlier?);
        Some(Placed {
            dram_writes: now.dram_writes.saturating_sub(earlier.dram_writes),
            pmem_writes: now.pmem_writes.saturating_sub(earlier.pmem_writes),
        })
    }
}

/// Point reads that came to tables, and in how many tables these looked beyond the filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableReadStats {
    /// The point reads.
    pub gets: u64,
    /// The tables, summed over them.
    pub table_reads: u64,
}

impl TableReadStats {
    /// Tables read by each. `None` if there was none.
    pub fn mean(&self) -> Option<f64> {
        (self.gets > 0).then(|| self.table_reads as f64 / self.gets as f64)
    }

    fn since(now: Option<Self>, earlier: Option<Self>) -> Option<Self> {
        let (now, earlier) = (now?, earlier?);
        Some(TableReadStats {
            gets: now.gets.saturating_sub(earlier.gets),
            table_reads: now.table_reads.saturating_sub(earlier.table_reads),
        })
    }
}

/// What point reads that came to tables cost, summed over them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableCost {
    /// The point reads.
    pub gets: u64,
    /// Sorted runs with a table for the key, each of which is visited, if only by its filter.
    pub runs: u64,
    /// Blocks read from files: those that no cache of the store had.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub bytes: u64,
}

impl TableCost {
    /// `sum`, one of these, for each point read. `None` if there was none.
    pub fn each(&self, sum: u64) -> Option<f64> {
        (self.gets > 0).then(|| sum as f64 / self.gets as f64)
    }

    fn since(now: Option<Self>, earlier: Option<Self>) -> Option<Self> {
        let (now, earlier) = (now?, earlier?);
        Some(TableCost {
            gets: now.gets.saturating_sub(earlier.gets),
            runs: now.runs.saturating_sub(earlier.runs),
            blocks: now.blocks.saturating_sub(earlier.blocks),
            bytes: now.bytes.saturating_sub(earlier.bytes),
        })
    }
}

impl Counters {
    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            user_bytes: self.user_bytes.saturating_sub(earlier.user_bytes),
            log_bytes: since(self.log_bytes, earlier.log_bytes),
            pool_bytes: self.pool_bytes.saturating_sub(earlier.pool_bytes),
            log_syncs: since(self.log_syncs, earlier.log_syncs),
            flush_bytes: since(self.flush_bytes, earlier.flush_bytes),
            compaction_bytes: since(self.compaction_bytes, earlier.compaction_bytes),
            stall_us: since(self.stall_us, earlier.stall_us),
            dram_hits: since(self.dram_hits, earlier.dram_hits),
            dram_misses: since(self.dram_misses, earlier.dram_misses),
            copies: Copies::since(self.copies, earlier.copies),
            placed: Placed::since(self.placed, earlier.placed),
            cache_hits: since(self.cache_hits, earlier.cache_hits),
            cache_misses: since(self.cache_misses, earlier.cache_misses),
            table_hits: TableReadStats::since(self.table_hits, earlier.table_hits),
            table_misses: TableReadStats::since(self.table_misses, earlier.table_misses),
            table_cost: TableCost::since(self.table_cost, earlier.table_cost),
        }
    }

    /// The part of `reads` point reads that DRAM answered, the block cache apart. `None` without
    /// reads, if it is not known, or if more reads were counted than those.
    pub fn dram_hit_ratio(&self, reads: u64) -> Option<f64> {
        let hits = match (self.dram_hits, self.dram_misses) {
            (Some(hits), _) => hits,
            (None, Some(misses)) => reads.checked_sub(misses)?,
            (None, None) => return None,
        };
        (reads > 0 && hits <= reads).then(|| hits as f64 / reads as f64)
    }

    /// The part of the blocks looked for that the block cache had. `None` if none was looked for, or
    /// that is not known.
    pub fn cache_hit_ratio(&self) -> Option<f64> {
        let (hits, misses) = (self.cache_hits?, self.cache_misses?);
        (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
    }

    /// Bytes written to devices, the log's included, for each byte that a user wrote. `None` if no
    /// user wrote, or some of it is not known.
    pub fn write_amp(&self) -> Option<f64> {
        let written = self.log_bytes? + self.flush_bytes? + self.compaction_bytes?;
        (self.user_bytes > 0).then(|| written as f64 / self.user_bytes as f64)
    }

    /// Bytes written to tables for each byte that a user wrote. Of a store that does not report, all
    /// that the process `written`, but for what users wrote, which a log holds at least. `None` if no
    /// user wrote.
    pub fn table_write_amp(&self, written: Option<u64>) -> Option<f64> {
        let told = self.flush_bytes.zip(self.compaction_bytes).map(|(flush, more)| flush + more);
        let tables = told.or_else(|| Some(written?.saturating_sub(self.user_bytes)))?;
        (self.user_bytes > 0).then(|| tables as f64 / self.user_bytes as f64)
    }
}

/// What the tables of a store take on its devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableDiskUsage {
    /// Now.
    pub bytes: u64,
    /// The most that they took at any time since the store was opened, if it keeps that.
    pub peak_bytes: Option<u64>,
}

/// What compactions were expected to free, and did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reclaim {
    /// Compactions that were judged.
    pub judged: u64,
    /// Those of them that freed what was expected, give or take a tenth.
    pub within_tenth: u64,
    /// Bytes that all of them were expected to free.
    pub predicted_bytes: u64,
    /// Bytes that they did free.
    pub reclaimed_bytes: u64,
}

impl Reclaim {
    /// How far what was expected is from what was freed, as a part of that. `None` if nothing was.
    pub fn error(&self) -> Option<f64> {
        let (predicted, reclaimed) = (self.predicted_bytes as f64, self.reclaimed_bytes as f64);
        (self.reclaimed_bytes > 0).then(|| (predicted / reclaimed - 1.0).abs())
    }

    /// The part of the compactions that were expected right, give or take a tenth.
    pub fn share_within_tenth(&self) -> Option<f64> {
        (self.judged > 0).then(|| self.within_tenth as f64 / self.judged as f64)
    }
}

fn since(now: Option<u64>, earlier: Option<u64>) -> Option<u64> {
    Some(now?.saturating_sub(earlier?))
}

/// What a load cost, apart from time.
pub(crate) struct Costs {
    /// What the store wrote meanwhile.
    pub(crate) during: Counters,
    pub(crate) disk_peak_bytes: u64,
    pub(crate) memory_peak: Option<Resident>,
    pub(crate) cpu: Duration,
}

/// What a load cost without the compactions after it.
pub(crate) struct LoadCosts {
    /// What the store wrote meanwhile.
    pub(crate) during: Counters,
    pub(crate) cpu: Duration,
    pub(crate) threads: usize,
}

/// The space that the files under `dir` take, as the file system counts it. A file that goes while
/// they are counted counts nothing.
pub fn disk_usage(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(files) = dir.read_dir() else { return 0 };
    let usage = |file: std::io::Result<std::fs::DirEntry>| {
        let file = file.ok()?;
        let metadata = file.metadata().ok()?;
        let inside = if metadata.is_dir() { disk_usage(&file.path()) } else { 0 };
        Some(metadata.blocks() * 512 + inside)
    };
    files.filter_map(usage).sum()
}

/// The bytes of the table files under `dir`, by the names that stores give them. One that goes while
/// they are counted counts nothing.
pub fn table_usage(dir: &Path) -> u64 {
    let Ok(files) = dir.read_dir() else { return 0 };
    let of_tables = dir.file_name().is_some_and(|name| name == TABLE_FOLDER);
    let usage = |file: std::io::Result<std::fs::DirEntry>| {
        let (path, file) = (file.as_ref().ok()?.path(), file.ok()?);
        if file.file_type().ok()?.is_dir() {
            return Some(table_usage(&path));
        }
        let known = path.extension().and_then(|name| name.to_str());
        let is_table = of_tables || known.is_some_and(|name| TABLE_EXTENSIONS.contains(&name));
        is_table.then(|| file.metadata().ok().map_or(0, |metadata| metadata.len()))
    };
    files.filter_map(usage).sum()
}

/// Esker's tables, RocksDB's, LevelDB's.
const TABLE_EXTENSIONS: [&str; 3] = ["tables", "sst", "ldb"];
/// fjall's have numbers for names.
const TABLE_FOLDER: &str = "tables";

/// The bytes that this process has given the system to write, to whatever: `None` where the system
/// doesn't report. What is written through mapped memory is not among them.
pub fn written_bytes() -> Option<u64> {
    parse_written(&std::fs::read_to_string("/proc/self/io").ok()?)
}

fn parse_written(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("wchar:"))?.trim().parse().ok()
}

/// Memory that the process has resident.
///
/// A mapped file is resident while its pages are in the system's cache and the process has touched
/// them, and costs the process nothing of its own: the system takes the pages back when it likes, as
/// it does those of a file that is read without a map. So the two are separated, and stores compare
/// by the first, whether they map their files or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Resident {
    /// The process's own: heap, stacks, private maps of no file.
    pub own_bytes: u64,
    /// Of mapped files, the program's among them, and of shared memory.
    pub mapped_bytes: u64,
}

impl Resident {
    /// Now, or `None` where the system doesn't report.
    pub fn now() -> Option<Resident> {
        Resident::parse(&std::fs::read_to_string("/proc/self/status").ok()?)
    }

    /// The more of either.
    pub fn most(self, other: Resident) -> Resident {
        Resident {
            own_bytes: self.own_bytes.max(other.own_bytes),
            mapped_bytes: self.mapped_bytes.max(other.mapped_bytes),
        }
    }

    fn parse(status: &str) -> Option<Resident> {
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
            Some(kib << 10)
        };
        Some(Resident {
            own_bytes: bytes("RssAnon:")?,
            mapped_bytes: bytes("RssFile:")? + bytes("RssShmem:")?,
        })
    }
}

/// Adds a look to the peak so far.
pub(crate) fn look_at_memory(peak: &mut Option<Resident>) {
    let now = Resident::now();
    *peak = peak.zip(now).map(|(peak, now)| peak.most(now)).or(*peak).or(now);
}

/// Processor time that is on the account of a load: that of all threads of this process but the
/// calling one, which runs no load, and inspects the store ten times a second. To inspect every
/// file of a large store takes time.
pub struct CpuAccount {
    process: Duration,
    caller: Duration,
}

impl CpuAccount {
    /// Begins now.
    pub fn begin() -> Self {
        CpuAccount { process: cpu_time(), caller: thread_cpu_time() }
    }

    /// What has been used up to now. To be called from the thread that began.
    pub fn used(&self) -> Duration {
        let process = cpu_time().saturating_sub(self.process);
        process.saturating_sub(thread_cpu_time().saturating_sub(self.caller))
    }
}

/// The processor time of all threads of this process, in user and system mode.
pub fn cpu_time() -> Duration {
    cpu_time_of(rustix::time::ClockId::ProcessCPUTime)
}

fn thread_cpu_time() -> Duration {
    cpu_time_of(rustix::time::ClockId::ThreadCPUTime)
}

fn cpu_time_of(clock: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_amplification_counts_log_flush_and_compaction() {
        let before = Counters { user_bytes: 50, log_bytes: Some(60), ..NOTHING };
        let after = Counters {
            user_bytes: 150,
            log_bytes: Some(170),
            flush_bytes: Some(90),
            compaction_bytes: Some(300),
            stall_us: Some(4),
            ..NOTHING
        };
        let during = after.since(&before);
        assert_eq!(
            (during.user_bytes, during.log_bytes, during.stall_us),
            (100, Some(110), Some(4))
        );
        assert_eq!(during.write_amp(), Some(5.0));
        assert_eq!(NOTHING.write_amp(), None);
        let partly_known = Counters { compaction_bytes: None, ..during };
        assert_eq!(partly_known.write_amp(), None);
    }

    const NOTHING: Counters = Counters {
        user_bytes: 0,
        log_bytes: Some(0),
        pool_bytes: 0,
        flush_bytes: Some(0),
        compaction_bytes: Some(0),
        stall_us: Some(0),
        dram_hits: None,
        dram_misses: None,
        copies: None,
        placed: None,
        cache_hits: None,
        cache_misses: None,
        table_hits: None,
        table_misses: None,
        table_cost: None,
        log_syncs: None,
    };

    #[test]
    fn the_share_of_persistent_memory_is_that_of_the_time_that_is_asked_for() {
        let placed = |dram_writes, pmem_writes| Counters {
            placed: Some(Placed { dram_writes, pmem_writes }),
            ..NOTHING
        };
        let share = |counters: Counters| counters.placed.and_then(|placed| placed.pmem_share());
        assert_eq!(share(placed(40, 90).since(&placed(10, 80))), Some(0.25));
        assert_eq!((share(placed(5, 5).since(&placed(5, 5))), share(NOTHING)), (None, None));
    }

    #[test]
    fn hits_are_counted_or_follow_from_misses() {
        let hits = Counters { dram_hits: Some(30), ..NOTHING };
        assert_eq!(hits.dram_hit_ratio(40), Some(0.75));
        assert_eq!(hits.dram_hit_ratio(20), None, "others read meanwhile");
        let misses = Counters { dram_misses: Some(30), ..NOTHING };
        assert_eq!(misses.dram_hit_ratio(40), Some(0.25));
        assert_eq!((misses.dram_hit_ratio(20), misses.dram_hit_ratio(0)), (None, None));
        assert_eq!(NOTHING.dram_hit_ratio(40), None);
        let cache = Counters { cache_hits: Some(1), cache_misses: Some(3), ..NOTHING };
        assert_eq!(cache.cache_hit_ratio(), Some(0.25));
        assert_eq!(NOTHING.cache_hit_ratio(), None);
    }

    #[test]
    fn table_reads_are_told_for_each_read_of_a_load() {
        let gets = |gets, table_reads| Some(TableReadStats { gets, table_reads });
        let before = Counters { table_hits: gets(10, 40), table_misses: gets(5, 5), ..NOTHING };
        let after = Counters { table_hits: gets(30, 65), table_misses: gets(5, 5), ..NOTHING };
        let during = after.since(&before);
        assert_eq!(during.table_hits.and_then(|hits| hits.mean()), Some(1.25));
        assert_eq!(during.table_misses.and_then(|misses| misses.mean()), None, "there was none");
        assert_eq!(after.since(&NOTHING).table_hits, None, "not known");
    }

    #[test]
    fn what_reads_cost_is_that_of_a_load_s_own_reads() {
        let cost = |gets, runs, blocks, bytes| Some(TableCost { gets, runs, blocks, bytes });
        let before = Counters { table_cost: cost(10, 20, 10, 40_000), ..NOTHING };
        let after = Counters { table_cost: cost(14, 30, 11, 44_000), ..NOTHING };
        let during = after.since(&before).table_cost.unwrap();
        let each = |sum| during.each(sum).unwrap();
        let found = [during.runs, during.blocks, during.bytes].map(each);
        assert_eq!(found, [2.5, 0.25, 1000.0]);
        assert_eq!(after.since(&after).table_cost.unwrap().each(1), None, "there was none");
    }

    #[test]
    fn bytes_given_to_the_system_are_counted() {
        assert_eq!(parse_written("rchar: 9\nwchar: 12345\nsyscr: 1\n"), Some(12_345));
        assert_eq!(parse_written("wchar: many"), None);
    }

    #[test]
    fn the_space_of_a_directory_is_that_of_all_files_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let before = disk_usage(dir.path());
        std::fs::create_dir(dir.path().join("inner")).unwrap();
        for name in ["a", "inner/b"] {
            let mut file = std::fs::File::create(dir.path().join(name)).unwrap();
            std::io::Write::write_all(&mut file, &[1; 1 << 16]).unwrap();
            file.sync_all().unwrap();
        }
        assert!(disk_usage(dir.path()) - before >= 2 << 16);
        assert_eq!(disk_usage(&dir.path().join("none")), 0);
    }

    #[test]
    fn tables_are_known_by_their_names() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("keyspaces/1/tables")).unwrap();
        let files =
            ["00000001.tables", "2.sst", "3.ldb", "keyspaces/1/tables/4", "5.log", "MANIFEST-6"];
        for name in files {
            std::fs::write(dir.path().join(name), [0; 10]).unwrap();
        }
        assert_eq!(table_usage(dir.path()), 40);
        assert_eq!(table_usage(&dir.path().join("none")), 0);
    }

    #[test]
    fn what_tables_cost_leaves_the_log_out_whether_it_is_told_or_not() {
        let told = Counters {
            user_bytes: 100,
            log_bytes: Some(120),
            flush_bytes: Some(90),
            compaction_bytes: Some(210),
            ..NOTHING
        };
        assert_eq!(told.table_write_amp(Some(1_000)), Some(3.0));
        let untold = Counters { flush_bytes: None, ..told };
        assert_eq!(untold.table_write_amp(Some(1_000)), Some(9.0));
        assert_eq!((untold.table_write_amp(None), NOTHING.table_write_amp(Some(1))), (None, None));
    }

    #[test]
    fn a_prediction_is_judged_by_what_was_freed() {
        let reclaim =
            Reclaim { judged: 20, within_tenth: 19, predicted_bytes: 90, reclaimed_bytes: 100 };
        assert!((reclaim.error().unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(reclaim.share_within_tenth(), Some(0.95));
        let nothing = Reclaim::default();
        assert_eq!((nothing.error(), nothing.share_within_tenth()), (None, None));
    }

    #[test]
    fn memory_is_read_from_the_status_file() {
        let status = "VmHWM:\t  9 kB\nRssAnon:\t   2048 kB\nRssFile:\t 16 kB\nRssShmem:\t 4 kB\n";
        let expected = Resident { own_bytes: 2 << 20, mapped_bytes: 20 << 10 };
        assert_eq!(Resident::parse(status), Some(expected));
        assert_eq!(Resident::parse(&status.replace("2048", "many")), None);
        assert_eq!(Resident::parse(""), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_peak_covers_memory_that_was_touched_and_given_back() {
        let mut peak = None;
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(block.iter().all(|&byte| byte == 1));
        look_at_memory(&mut peak);
        drop(block);
        look_at_memory(&mut peak);
        assert!(peak.unwrap().own_bytes >= 64 << 20, "{peak:?}");
    }

    #[test]
    fn the_caller_is_not_on_the_account_and_others_are() {
        let work = || {
            let start = thread_cpu_time();
            let mut sum = 0u64;
            while thread_cpu_time() - start < Duration::from_millis(40) {
                sum = std::hint::black_box(sum + 1);
            }
        };
        let (process, account) = (cpu_time(), CpuAccount::begin());
        work();
        let used = account.used();
        let beside = (cpu_time() - process).saturating_sub(used);
        assert!(beside >= Duration::from_millis(40), "{beside:?}");
        let before = account.used();
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
        assert!(account.used() - before >= Duration::from_millis(40));
    }

    #[test]
    fn processor_time_grows_with_work() {
        let start = cpu_time();
        let mut sum = 0u64;
        while cpu_time() == start {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_time() > start);
    }
}
