//! Random reads and puts with the whole engine on the paced model: the second figure of the paper.
//!
//! Threads in a closed loop read random keys, and put some. Where reads alone leave more than a fifth of the dies'
//! time, the row is void, and so is one in which compaction did not write what the puts ask for. Each policy fills a device of its own, without time, to the same content; then time passes, slower
//! than the clock by as much as the machine needs. RocksDB does the same where units are shared, if it is built in. It
//! throttles writers by wall-clock time, and as long as it does, the model's time hardly goes on: so it takes more puts in that
//! time than it would, and what it writes for each shows whether its compaction followed.

use super::device::{Device, NAME, policies};
use super::load::{Keys, Load, MixedLoad, Moment};
use super::row;
use crate::experiment::rows::Rows;
use crate::failure::Outcome;
use esker_bench::Row;
use esker_flash::ReadPriority;

/// What cases of this figure begin with.
pub(super) const PREFIX: &str = "engine";

/// What is alive takes two thirds of the device: much emptier, units are too unequal for reads to keep all of them
/// busy.
const RECORDS: u64 = 290_000;
/// How long each load is measured, in the model's time: so that some megabytes of values are put, and compacted.
const SECONDS: f64 = 0.75;
/// Puts of a hundred operations.
const PUT_PERCENTS: [u64; 4] = [0, 5, 10, 50];
/// The least that is written for a byte that is put, as a part of what shared units write.
const COMPACTED: f64 = 0.5;
/// The least that is written for it whatever shared units write: once when it is flushed, and once more when it is merged
/// into the level below.
const COMPACTED_LEAST: f64 = 2.0;
/// The least part of all dies' time that reads alone must take, in percent.
const BUSY_PERCENT: f64 = 80.0;

pub(super) const METRICS: [&str; 7] = [
    "reads_percent_of_read_only",
    "latency_p999_us",
    "written_per_put_byte",
    "read_die_share_percent",
    "write_die_share_percent",
    "write_set_heat",
    "dilation",
];

pub(super) const ABOUT: &str = "\
    The whole engine, and nothing cached but a few blocks, on a model of 4 channels with 4 dies each, paced \
    by the clock and slowed down as the machine needs (dilation). 96 threads read random keys one after the \
    other; the case says how many of a hundred operations are puts instead, and what the device does by \
    itself. Before each case compactions end, without time. No log: the puts' is taken to lie elsewhere. \
    The static sets of the other figure are not there: what they read is never written, and an engine \
    reads what it writes. RocksDB, if it is built in, has its files in the same storage, where units are \
    shared, and as much memory. Reads are shown as a part of what the same engine reads without puts where \
    units are shared; rows are void if that takes less than 80% of the dies' time, or if for each byte put \
    less than half of what shared units wrote was written, or less than two bytes: then compaction fell \
    behind. What the device is asked to write follows from puts and compaction, and is not smoothed. \
    RocksDB holds writers back by the clock and not by the model's time, so that it takes more puts in that than it would: its row is \
    void if it wrote less than half of what it did for each byte at fewer puts.";

pub(super) fn settings() -> Vec<(&'static str, String)> {
    vec![
        ("engine_forms", format!("{:?}", ReadPriority::ALL.map(ReadPriority::name))),
        ("engine_records", RECORDS.to_string()),
        ("engine_seconds", SECONDS.to_string()),
        ("engine_put_percents", format!("{PUT_PERCENTS:?}")),
    ]
}

pub(super) fn run(rows: &mut Rows<'_>) -> Outcome {
    let rocksdb = esker_peers::check("rocksdb-nolog");
    if let Err(error) = &rocksdb {
        rows.say(&format!("without RocksDB: {error}"));
    }
    for form in ReadPriority::ALL {
        let mut shared = Vec::new();
        for policy in policies(form) {
            let name = policy.name();
            of_engine(name, form, &Device::with_esker(form, policy)?, &mut shared, rows)?;
        }
        if rocksdb.is_ok() {
            let device = Device::with_rocksdb(form)?;
            of_engine("rocksdb", form, &device, &mut Vec::new(), rows)?;
        }
    }
    Ok(())
}

/// `shared` is what the same engine did where units are shared, by [`PUT_PERCENTS`]; it is filled if it is empty.
fn of_engine(
    name: &str,
    form: ReadPriority,
    device: &Device,
    shared: &mut Vec<Moment>,
    rows: &mut Rows<'_>,
) -> Outcome {
    rows.say(&format!("filling the device of {name}, {}", form.name()));
    let load = Load::on(device);
    load.grow(RECORDS)?;
    for (place, &put_percent) in PUT_PERCENTS.iter().enumerate() {
        let moment = load.run(MixedLoad { put_percent, keys: Keys::Uniform }, SECONDS)?;
        let case = format!("{PREFIX}/{NAME}/{put_percent}%-puts/{}", form.name());
        if shared.len() == place {
            shared.push(moment.clone());
        }
        rows.add(of_one(name, &case, &moment, &shared[0], compared(name, &shared[..=place])));
    }
    Ok(())
}

/// The write amplification to expect: as much as shared units wrote with as many puts, the last of `shared`; or,
/// by RocksDB, as much as it wrote with these or fewer.
fn compared<'a>(name: &str, shared: &'a [Moment]) -> &'a Moment {
    let by_written =
        |one: &&Moment, other: &&Moment| one.written_per_put.total_cmp(&other.written_per_put);
    let most = || shared.iter().max_by(by_written);
    let found = if name == "rocksdb" { most() } else { shared.last() };
    found.expect("there is what is compared")
}

/// `alone` is what shared units did without puts, `shared` what they did with as many.
fn of_one(policy: &str, case: &str, moment: &Moment, alone: &Moment, shared: &Moment) -> Vec<Row> {
    let row = |metric, value, unit| row(policy, case, metric, value, unit);
    let busy = alone.read_share * 100.0;
    if busy < BUSY_PERCENT {
        return vec![row("void_read_die_share_percent", busy, "%")];
    }
    if let Some(void) = behind(policy, case, moment, shared) {
        return vec![void];
    }
    let percent = moment.reads_per_second / alone.reads_per_second * 100.0;
    let mut rows = vec![row("reads_percent_of_read_only", percent, "%")];
    rows.extend(measured(policy, case, moment));
    rows
}

/// Why a row is void in which too little was written for what was put: threads put what they may, so that compaction is
/// what can miss the rate that puts ask for. `shared` is what shared units did with as many puts.
pub(super) fn behind(policy: &str, case: &str, moment: &Moment, shared: &Moment) -> Option<Row> {
    let least = (shared.written_per_put * COMPACTED).max(COMPACTED_LEAST);
    let is_behind = moment.puts_per_second > 0.0 && moment.written_per_put < least;
    is_behind
        .then(|| row(policy, case, "void_written_per_put_byte", moment.written_per_put, "ratio"))
}

/// What is known of one engine in one case.
pub(super) fn measured(policy: &str, case: &str, moment: &Moment) -> Vec<Row> {
    let row = |metric, value, unit| row(policy, case, metric, value, unit);
    vec![
        row("throughput", moment.reads_per_second, "ops/s"),
        row("puts_per_second", moment.puts_per_second, "ops/s"),
        row("latency_p50_us", moment.latency_us(0.5), "us"),
        row("latency_p99_us", moment.latency_us(0.99), "us"),
        row("latency_p999_us", moment.latency_us(0.999), "us"),
        row("read_die_share_percent", moment.read_share * 100.0, "%"),
        row("write_die_share_percent", moment.write_share * 100.0, "%"),
        row("write_set_heat", moment.heat, "ratio"),
        row("written_per_put_byte", moment.written_per_put, "ratio"),
        row("media_over_host_bytes", moment.media_over_host, "ratio"),
        row("dilation", moment.dilation, "ratio"),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn moment() -> Moment {
        Moment {
            reads_per_second: 50.0,
            puts_per_second: 5.0,
            latencies: vec![1_000; 4],
            read_share: 0.8,
            write_share: 0.1,
            heat: 0.3,
            media_over_host: 1.0,
            written_per_put: 6.0,
            dilation: 8.0,
        }
    }

    #[test]
    fn a_row_is_void_if_reads_alone_do_not_keep_the_device_busy() {
        let alone = Moment { read_share: 0.79, ..moment() };
        let rows = of_one("shared", "case", &moment(), &alone, &moment());
        assert_eq!((rows.len(), &rows[0].metric[..]), (1, "void_read_die_share_percent"));
    }

    #[test]
    fn a_row_is_void_if_compaction_fell_behind() {
        let behind = Moment { written_per_put: 2.9, ..moment() };
        let rows = of_one("even", "case", &behind, &moment(), &moment());
        assert_eq!((rows.len(), &rows[0].metric[..]), (1, "void_written_per_put_byte"));
    }

    #[test]
    fn a_row_of_shared_units_is_void_if_compaction_fell_behind_there() {
        let behind = Moment { written_per_put: 1.9, ..moment() };
        let rows = of_one("shared", "case", &behind, &moment(), &behind);
        assert_eq!((rows.len(), &rows[0].metric[..]), (1, "void_written_per_put_byte"));
        let enough = Moment { written_per_put: 2.1, ..moment() };
        assert!(of_one("shared", "case", &enough, &moment(), &enough).len() > 1);
    }

    #[test]
    fn a_row_of_rocksdb_is_void_if_it_wrote_less_than_half_of_what_it_did_at_fewer_puts() {
        let written = |written_per_put| Moment { written_per_put, ..moment() };
        let all = [written(0.0), written(12.0), written(4.0)];
        let rows = |name: &str, all: &[Moment]| {
            let compared = compared(name, all);
            of_one(name, "case", all.last().unwrap(), &moment(), compared)
        };
        let void = rows("rocksdb", &all);
        assert_eq!((void.len(), &void[0].metric[..]), (1, "void_written_per_put_byte"));
        assert!(rows("rocksdb", &all[..2]).len() > 1);
        assert!(rows("shared", &all).len() > 1);
    }

    #[test]
    fn a_row_without_puts_is_not_void_for_what_was_not_written() {
        let reads = Moment { puts_per_second: 0.0, written_per_put: 0.0, ..moment() };
        assert!(of_one("shared", "case", &reads, &reads, &reads).len() > 1);
    }

    #[test]
    fn reads_are_shown_as_a_part_of_reads_alone() {
        let alone = Moment { reads_per_second: 100.0, ..moment() };
        let rows = of_one("shared", "case", &moment(), &alone, &moment());
        assert_eq!((&rows[0].metric[..], rows[0].value), (METRICS[0], 50.0));
    }
}
