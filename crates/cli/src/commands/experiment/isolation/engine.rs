//! Random reads and puts with the whole engine on the paced model: the paper's second figure.
//!
//! Threads in a closed loop read random keys, and put some. The device is a part of the open-channel preset, small
//! enough that as many threads as this machine can serve keep its dies busy: where reads alone leave more than a
//! fifth of the dies' time, the row is void. Each policy fills a device of its own, without time, to the same
//! content; then time passes, slower than the clock by as much as the machine needs.

use super::load::{Load, Moment};
use super::{SEED, row};
use crate::failure::Outcome;
use esker::{Db, Env, KeyspaceSettings, Log, Settings};
use esker_base::{SystemClock, Threads};
use esker_bench::Row;
use esker_flash::host::{HostClock, Pace};
use esker_flash::placement::{Policy, Rotating, Shared};
use esker_flash::storage::LIFETIMES;
use esker_flash::{FlashStorage, Form, Host, ModelledZones, Preset};
use std::sync::Arc;

/// What cases of this figure begin with.
pub(super) const PREFIX: &str = "engine";

// The device: a quarter of the preset's channels with half of their dies, and chunks of a sixteenth.
const GROUPS: u16 = 4;
const UNITS_PER_GROUP: u16 = 4;
const CHUNK_BYTES: u32 = 1 << 20;
const CHUNKS_PER_UNIT: u16 = 32;

// The load: what is alive takes half of the device, and what compactions write before their inputs go a part of the rest.
pub(super) const VALUE_BYTES: usize = 1_100;
pub(super) const RECORDS: u64 = 220_000;
pub(super) const THREADS: usize = 64;

const MEMORY_BYTES: usize = 24 << 20;
const SEGMENT_BYTES: usize = 2 << 20;
/// The least that the clock is slowed down: a processor of this machine does as much in the model's time as six.
const DILATION: f64 = 6.0;

/// How long each load is measured, in the model's time.
const SECONDS: f64 = 1.0;
/// Puts of a hundred operations.
const PUT_PERCENTS: [u64; 5] = [0, 5, 10, 25, 50];
/// The least part of all dies' time that reads alone must take, in percent.
const BUSY_PERCENT: f64 = 80.0;

pub(super) const METRICS: [&str; 6] = [
    "reads_percent_of_read_only",
    "latency_p999_us",
    "read_die_share_percent",
    "write_die_share_percent",
    "write_set_heat",
    "dilation",
];

pub(super) const ABOUT: &str = "\
    The whole engine, and nothing cached but a few blocks, on a model of 4 channels with 4 dies each, paced by the clock \
    and slowed down as the machine needs (dilation). 64 threads read random keys one after the other; the case says how \
    many of a hundred operations are puts instead, and what the device does by itself. No log: the puts' is taken to \
    lie elsewhere. Reads are shown as a part of what shared units read without puts; rows are void \
    if that takes less than 80% of the dies' time. What the device is asked to \
    write follows from puts and compaction, and is not smoothed.";

/// All rows; none of a quick run.
pub(super) fn rows(is_quick: bool) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    if is_quick {
        return Ok(rows);
    }
    for form in [Form::HostOnly, Form::Suspend(15_000)] {
        let preset = preset();
        let policies: [Box<dyn Policy + Send>; 2] = [
            Box::new(Shared),
            Box::new(Rotating::new(LIFETIMES, form != Form::HostOnly, preset.channel_units())),
        ];
        let mut alone = None;
        for policy in policies {
            rows.extend(of_policy(&preset, form, policy, &mut alone)?);
        }
    }
    Ok(rows)
}

fn preset() -> Preset {
    let preset = Preset::named(super::policies::PRESET).expect("it comes with the program");
    preset
        .with_units(GROUPS, UNITS_PER_GROUP)
        .with_chunk_bytes(CHUNK_BYTES)
        .with_chunks_per_unit(CHUNKS_PER_UNIT)
}

/// `alone` is what shared units read without puts, and the part of the dies' time that it takes, in percent.
fn of_policy(
    preset: &Preset,
    form: Form,
    policy: Box<dyn Policy + Send>,
    alone: &mut Option<(f64, f64)>,
) -> Outcome<Vec<Row>> {
    let name = policy.name();
    let clock = Arc::new(SystemClock::new());
    let pace = Pace { clock: clock.clone(), dilation: DILATION, background: Arc::new(Threads) };
    let host = Arc::new(Host::paced(preset, form, policy.lets_reads_go_first(), SEED, pace)?);
    let zones = Arc::new(ModelledZones::new(host.clone()));
    let storage = Arc::new(FlashStorage::placed_by(zones, policy)?);
    host.set_timeless(true);
    let db = open(&host, storage.clone())?;
    let keyspace = db.keyspace("load", KeyspaceSettings::default())?;
    let store = db.store(&keyspace);
    let load = Load { store: &store, host: &host, storage: &storage, clock: &*clock };
    load.fill()?;
    db.settle()?;
    host.set_timeless(false);
    let mut rows = Vec::new();
    for percent in PUT_PERCENTS {
        let moment = load.run(percent, SECONDS)?;
        let reads = moment.reads_per_second;
        let case = format!("{PREFIX}/{percent}%-puts/{}", form.name());
        let (alone_reads, alone_busy) = *alone.get_or_insert((reads, moment.read_share * 100.0));
        rows.extend(of_one(name, &case, &moment, alone_reads, alone_busy));
    }
    Ok(rows)
}

fn open(host: &Arc<Host>, storage: Arc<FlashStorage>) -> Outcome<Db> {
    let env = Env {
        storage,
        log_storage: None,
        pool: None,
        clock: Arc::new(HostClock(host.clone())),
        background: Arc::new(Threads),
        seed: SEED,
    };
    let settings = Settings {
        log: Log::None,
        segment_bytes: SEGMENT_BYTES,
        memory_bytes: MEMORY_BYTES,
        dram_table_bytes: Some(0),
        ..Settings::default()
    };
    Ok(Db::open_with(env, settings)?)
}

fn of_one(policy: &str, case: &str, moment: &Moment, alone: f64, busy: f64) -> Vec<Row> {
    let row = |metric, value, unit| row(policy, case, metric, value, unit);
    if busy < BUSY_PERCENT {
        return vec![row("void_read_die_share_percent", busy, "%")];
    }
    vec![
        row("reads_percent_of_read_only", moment.reads_per_second / alone * 100.0, "%"),
        row("throughput", moment.reads_per_second, "ops/s"),
        row("puts_per_second", moment.puts_per_second, "ops/s"),
        row("latency_p50_us", moment.latency_us(0.5), "us"),
        row("latency_p99_us", moment.latency_us(0.99), "us"),
        row("latency_p999_us", moment.latency_us(0.999), "us"),
        row("read_die_share_percent", moment.read_share * 100.0, "%"),
        row("write_die_share_percent", moment.write_share * 100.0, "%"),
        row("write_set_heat", moment.heat, "ratio"),
        row("media_over_host_bytes", moment.media_over_host, "ratio"),
        row("dilation", moment.dilation, "ratio"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment() -> Moment {
        Moment {
            reads_per_second: 50.0,
            puts_per_second: 5.0,
            latencies: vec![1_000; 4],
            read_share: 0.4,
            write_share: 0.1,
            heat: 0.3,
            media_over_host: 1.0,
            dilation: 8.0,
        }
    }

    #[test]
    fn a_row_is_void_if_reads_alone_do_not_keep_the_device_busy() {
        let rows = of_one("shared", "case", &moment(), 100.0, 79.0);
        assert_eq!((rows.len(), &rows[0].metric[..]), (1, "void_read_die_share_percent"));
    }

    #[test]
    fn reads_are_shown_as_a_part_of_reads_alone() {
        let rows = of_one("shared", "case", &moment(), 100.0, 80.0);
        assert_eq!((&rows[0].metric[..], rows[0].value), (METRICS[0], 50.0));
    }
}
