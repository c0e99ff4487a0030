//! What a database has cost since it was made: the part of `esker stats` that is kept across opens.

use crate::units::{bytes, count};
use esker::Stats as Figures;
use esker::stats::{CumulativeStats, LiveData, RECLAIM_PERCENTS, ReclaimAccuracy};
use esker_base::limit_line::{self, LimitLine};
use serde_json::{Value as Json, json};

/// What is live, and what it has cost.
#[derive(Clone, Copy)]
pub struct Cost {
    account: CumulativeStats,
    live: Option<LiveData>,
    /// Bytes of tables and value files.
    data_bytes: u64,
    /// Keys and values in tables, before compression, and what is in value files.
    raw_bytes: u64,
}

impl Cost {
    pub fn of(figures: &Figures, live: Option<LiveData>, raw_bytes: u64) -> Self {
        let (data_bytes, raw_bytes) =
            (figures.table_bytes + figures.value_file_bytes, raw_bytes + figures.value_file_bytes);
        Cost { account: figures.account, live, data_bytes, raw_bytes }
    }

    /// What users wrote, in bytes as tables hold them: what compression saves is not the tree's merit.
    /// As far as what is there reports what was there before.
    fn user_table_bytes(&self) -> Option<f64> {
        let packed = self.data_bytes as f64 / self.raw_bytes as f64;
        (self.raw_bytes > 0).then_some(self.account.user_bytes as f64 * packed.min(1.0))
    }

    /// Bytes of tables and value files, less what snapshots pin, for each live byte.
    fn space_amp(&self) -> Option<f64> {
        let live = self.live.filter(|live| live.bytes >= 1.0)?;
        Some((self.data_bytes as f64 - live.pinned_bytes).max(0.0) / live.bytes)
    }

    /// The limit line for uniform updates, its MemTables as large as those flushed here.
    fn line(&self) -> Option<LimitLine> {
        let live = self.live.filter(|live| live.bytes >= 1.0)?;
        let flushes = (self.account.flushes > 0).then_some(self.account.flushes as f64)?;
        Some(LimitLine {
            live_bytes: live.bytes as u64,
            memtable_bytes: (self.user_table_bytes()? / flushes).max(1.0) as u64,
            runs: limit_line::RUNS,
            skew: 1.0,
        })
    }

    /// What the line asks for the mean space that was taken.
    fn limit(&self) -> Option<f64> {
        (self.account.compactions > 0).then_some(())?;
        self.line()?.write_amp(self.account.space.amp_mean()?)
    }

    /// How many times that the table writes are. `None` before the first compaction: the line is one of
    /// compactions.
    fn distance(&self) -> Option<f64> {
        (self.account.compactions > 0).then_some(())?;
        let written = (self.account.flush_bytes + self.account.compaction_bytes) as f64;
        let write_amp = written / self.user_table_bytes()?;
        self.line()?.distance(write_amp, self.account.space.amp_mean()?)
    }

    /// The figures that are known, each under its name in JSON.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let account = &self.account;
        let ratio = |of: Option<f64>| of.map(|of| format!("{of:.2}"));
        let size = |of: Option<f64>| of.map(|of| bytes(of as u64));
        let gets = account.table_gets;
        let per = |gets: u64, each: f64| ratio((gets > 0).then_some(each));
        let live = self.live;
        let of_all =
            format!("{} of {}", count(account.reclaims_within_tenth), count(account.compactions));
        let figures = [
            ("live_bytes", size(live.map(|live| live.bytes))),
            ("pinned_bytes", size(live.map(|live| live.pinned_bytes))),
            ("space_amp", ratio(self.space_amp())),
            ("space_amp_mean", ratio(account.space.amp_mean())),
            ("space_amp_peak", ratio(account.space.amp_peak())),
            ("user_bytes", Some(bytes(account.user_bytes))),
            ("write_amp.log", ratio(account.write_amp(account.log_bytes))),
            ("write_amp.flush", ratio(account.write_amp(account.flush_bytes))),
            ("write_amp.compaction", ratio(account.write_amp(account.compaction_bytes))),
            ("stalled_us", Some(count(account.stalled_us))),
            ("limit_line_distance", ratio(self.distance())),
            ("table_reads_per_hit", per(gets.hits, gets.reads_per_hit())),
            ("table_reads_per_miss", per(gets.misses, gets.reads_per_miss())),
            ("table_runs_per_get", per(gets.gets(), gets.runs_per_get())),
            ("table_blocks_read_per_get", per(gets.gets(), gets.blocks_per_get())),
            (
                "table_bytes_read_per_get",
                size((gets.gets() > 0).then(|| gets.block_bytes_per_get())),
            ),
        ];
        let of_compactions = [
            ("reclaimed_bytes", bytes(account.reclaimed_bytes())),
            ("predicted_reclaim_bytes", bytes(account.predicted_reclaim_bytes)),
            ("reclaims_within_tenth", of_all),
            ("reclaim_errors.off_bytes", bytes(account.reclaim_errors.off_bytes)),
            ("reclaim_errors.doubtful", count(account.reclaim_errors.doubtful)),
        ];
        let known = figures.into_iter().filter_map(|(name, figure)| Some((name, figure?)));
        known.chain(of_compactions.into_iter().filter(|_| account.compactions > 0)).collect()
    }

    pub fn json(&self) -> Json {
        let account = &self.account;
        let gets = account.table_gets;
        let reads = |gets: u64, each: f64| (gets > 0).then_some(each);
        json!({
            "live_bytes": self.live.map(|live| live.bytes as u64),
            "live_keys": self.live.map(|live| live.keys as u64),
            "pinned_bytes": self.live.map(|live| live.pinned_bytes as u64),
            "space_amp": self.space_amp(),
            "space_amp_mean": account.space.amp_mean(),
            "space_amp_peak": account.space.amp_peak(),
            "table_file_bytes_peak": account.space.bytes_peak,
            "user_bytes": account.user_bytes,
            "log_bytes": account.log_bytes,
            "flushes": account.flushes,
            "flush_bytes": account.flush_bytes,
            "compactions": account.compactions,
            "compaction_read_bytes": account.compaction_read_bytes,
            "compaction_bytes": account.compaction_bytes,
            "write_amp": {
                "log": account.write_amp(account.log_bytes),
                "flush": account.write_amp(account.flush_bytes),
                "compaction": account.write_amp(account.compaction_bytes),
            },
            "stalled_us": account.stalled_us,
            "limit_line_write_amp": self.limit(),
            "limit_line_distance": self.distance(),
            "table_hits": gets.hits,
            "table_misses": gets.misses,
            "table_reads_per_hit": reads(gets.hits, gets.reads_per_hit()),
            "table_reads_per_miss": reads(gets.misses, gets.reads_per_miss()),
            "table_runs_per_get": reads(gets.gets(), gets.runs_per_get()),
            "table_blocks_read": gets.blocks,
            "table_block_bytes_read": gets.block_bytes,
            "table_blocks_read_per_get": reads(gets.gets(), gets.blocks_per_get()),
            "table_bytes_read_per_get": reads(gets.gets(), gets.block_bytes_per_get()),
            "reclaimed_bytes": account.reclaimed_bytes(),
            "predicted_reclaim_bytes": account.predicted_reclaim_bytes,
            "reclaims_within_tenth": account.reclaims_within_tenth,
            "reclaim_errors": reclaim_errors(&account.reclaim_errors),
        })
    }
}

/// Compactions by how far off their estimate was, and what is summed of all.
fn reclaim_errors(errors: &ReclaimAccuracy) -> Json {
    let names = RECLAIM_PERCENTS.map(|percent| format!("to_{percent}_percent"));
    let names = names.into_iter().chain(["more".to_owned()]);
    let mut of: serde_json::Map<_, _> = names.zip(errors.by_percent.map(Json::from)).collect();
    of.insert("off_bytes".into(), errors.off_bytes.into());
    of.insert("doubtful".into(), errors.doubtful.into());
    Json::Object(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::stats::{SpaceAmpSamples, TableReadStats};

    fn cost(table_gets: TableReadStats) -> Cost {
        let mut account = CumulativeStats::default();
        account.table_gets = table_gets;
        Cost { account, live: None, data_bytes: 0, raw_bytes: 0 }
    }

    #[test]
    fn the_distance_from_the_limit_line_is_the_line_s_own() {
        let space = SpaceAmpSamples::look(1_200_000, 1_300_000, 1e6, 0.0);
        let mut account = CumulativeStats::default();
        (account.user_bytes, account.flush_bytes, account.flushes) = (9_000_000, 9_000_000, 90);
        (account.compaction_bytes, account.compactions) = (22_500_000, 1);
        account.space = space;
        let mut live = LiveData::default();
        (live.bytes, live.keys) = (1e6, 1e4);
        let cost = Cost { account, live: Some(live), data_bytes: 1_100_000, raw_bytes: 1_100_000 };
        let line = LimitLine {
            live_bytes: 1_000_000,
            memtable_bytes: 100_000,
            runs: limit_line::RUNS,
            skew: 1.0,
        };
        assert_eq!(cost.distance(), line.distance(3.5, 1.2));
        assert!(cost.distance().is_some());
        account.compactions = 0;
        assert_eq!(Cost { account, ..cost }.distance(), None);
    }

    #[test]
    fn what_a_get_cost_is_told_once_there_was_one() {
        let nothing = cost(TableReadStats::default());
        assert_eq!(nothing.json()["table_runs_per_get"], Json::Null);
        assert_eq!(nothing.json()["table_blocks_read_per_get"], Json::Null);
        let mut gets = TableReadStats::default();
        (gets.hits, gets.misses, gets.runs) = (6, 2, 20);
        (gets.blocks, gets.block_bytes) = (4, 16_000);
        let (some, json) = (cost(gets), cost(gets).json());
        assert_eq!(
            (&json["table_runs_per_get"], &json["table_blocks_read_per_get"]),
            (&2.5.into(), &0.5.into())
        );
        assert_eq!(
            (&json["table_blocks_read"], &json["table_bytes_read_per_get"]),
            (&4.into(), &2000.0.into())
        );
        let lines = some.lines();
        let has =
            |name: &str, figure: &str| lines.iter().any(|line| line == &(name, figure.into()));
        assert!(has("table_runs_per_get", "2.50"), "{lines:?}");
        assert!(has("table_blocks_read_per_get", "0.50"), "{lines:?}");
        assert!(!nothing.lines().iter().any(|(name, _)| name.starts_with("table_")));
    }
}
