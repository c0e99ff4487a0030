//! Random reads and puts with the whole engine on the paced model: the paper's second figure; and YCSB by how much of the
//! device is alive.
//!
//! Threads in a closed loop read random keys, and put some. The device is a part of the open-channel preset, small
//! enough that as many threads as this machine can serve keep its dies busy: where reads alone leave more than a
//! fifth of the dies' time, the row is void. Each policy fills a device of its own, without time, to the same
//! content; then time passes, slower than the clock by as much as the machine needs.

use super::load::{Keys, Load, Mix, Moment};
use super::{SEED, row};
use crate::failure::Outcome;
use esker::{Db, Env, KeyspaceSettings, Log, Settings, Store};
use esker_base::{SystemClock, Threads};
use esker_bench::Row;
use esker_flash::host::{HostClock, Pace};
use esker_flash::placement::{Even, Policy, Rotating, Shared};
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
/// Records for each percent of the device that is to be alive.
const RECORDS_PER_PERCENT: u64 = 3_800;
pub(super) const THREADS: usize = 64;

const MEMORY_BYTES: usize = 24 << 20;
const SEGMENT_BYTES: usize = 2 << 20;
/// The least that the clock is slowed down: a processor of this machine does as much in the model's time as six.
const DILATION: f64 = 6.0;

/// How long each load is measured, in the model's time: so that some megabytes of values are put, and compacted.
const SECONDS: f64 = 1.0;
const YCSB_SECONDS: f64 = 0.5;
/// Puts of a hundred operations.
const PUT_PERCENTS: [u64; 4] = [0, 5, 10, 50];
/// YCSB's workloads: puts of a hundred operations, and which records.
const YCSB: [(&str, u64, Keys); 3] =
    [("a", 50, Keys::Zipfian), ("b", 5, Keys::Zipfian), ("d", 5, Keys::Latest)];
/// How much of the device is to be alive, in percent.
const FILLS: [u64; 3] = [50, 80, 93];
/// The least that is written for a byte that is put, as a part of what shared units write.
const COMPACTED: f64 = 0.5;
/// The least part of all dies' time that reads alone must take, in percent.
const BUSY_PERCENT: f64 = 80.0;

/// What cases of YCSB begin with.
pub(super) const YCSB_PREFIX: &str = "ycsb";

pub(super) const METRICS: [&str; 7] = [
    "reads_percent_of_read_only",
    "latency_p999_us",
    "written_per_put_byte",
    "read_die_share_percent",
    "write_die_share_percent",
    "write_set_heat",
    "dilation",
];

pub(super) const YCSB_METRICS: [&str; 7] = [
    "throughput",
    "latency_p50_us",
    "latency_p99_us",
    "latency_p999_us",
    "write_set_heat",
    "media_over_host_bytes",
    "erases_most",
];

pub(super) const YCSB_ABOUT: &str = "\
    YCSB A, B and D on the same device, host-only, by the part of it that files have when the load begins; throughput \
    and latencies are of reads. Media over host bytes counts what was moved to make room, erases those of chunks since the \
    device was made. A row is void if the device had no room for the load.";

pub(super) const ABOUT: &str = "\
    The whole engine, and nothing cached but a few blocks, on a model of 4 channels with 4 dies each, paced by the clock \
    and slowed down as the machine needs (dilation). 64 threads read random keys one after the other; the case says how \
    many of a hundred operations are puts instead, and what the device does by itself. No log: the puts' is taken to \
    lie elsewhere. Reads are shown as a part of what shared units read without puts; rows are void \
    if that takes less than 80% of the dies' time, or if for each byte put less than half of what shared units wrote was written: \
    then compaction fell behind. What the device is asked to \
    write follows from puts and compaction, and is not smoothed.";

/// All rows; none of a quick run.
pub(super) fn rows(is_quick: bool) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    if is_quick {
        return Ok(rows);
    }
    for form in [Form::HostOnly, Form::Suspend(15_000)] {
        let mut shared = Vec::new();
        for policy in policies(form) {
            rows.extend(of_policy(form, policy, &mut shared)?);
        }
    }
    for fill in FILLS {
        for policy in policies(Form::HostOnly) {
            rows.extend(ycsb(policy, fill)?);
        }
    }
    Ok(rows)
}

/// Shared units come first: the others are shown beside them.
fn policies(form: Form) -> [Box<dyn Policy + Send>; 3] {
    let rotating = Rotating::new(LIFETIMES, form != Form::HostOnly, preset().channel_units());
    [Box::new(Shared), Box::new(rotating), Box::new(Even)]
}

fn preset() -> Preset {
    let preset = Preset::named(super::policies::PRESET).expect("it comes with the program");
    preset
        .with_units(GROUPS, UNITS_PER_GROUP)
        .with_chunk_bytes(CHUNK_BYTES)
        .with_chunks_per_unit(CHUNKS_PER_UNIT)
}

/// `shared` is what shared units did, by [`PUT_PERCENTS`].
fn of_policy(
    form: Form,
    policy: Box<dyn Policy + Send>,
    shared: &mut Vec<Moment>,
) -> Outcome<Vec<Row>> {
    let name = policy.name();
    let device = Device::new(form, policy, RECORDS)?;
    let load = device.load();
    load.fill()?;
    device.begin()?;
    let mut rows = Vec::new();
    for (place, put_percent) in PUT_PERCENTS.into_iter().enumerate() {
        let moment = load.run(Mix { put_percent, keys: Keys::Uniform }, SECONDS)?;
        let case = format!("{PREFIX}/{put_percent}%-puts/{}", form.name());
        if shared.len() == place {
            shared.push(moment.clone());
        }
        let of_one = of_one(name, &case, &moment, &shared[0], &shared[place]);
        tell(&of_one);
        rows.extend(of_one);
    }
    Ok(rows)
}

/// All of YCSB on a device that is filled so far.
fn ycsb(policy: Box<dyn Policy + Send>, fill: u64) -> Outcome<Vec<Row>> {
    let (name, mut rows) = (policy.name(), Vec::new());
    let device = Device::new(Form::HostOnly, policy, fill * RECORDS_PER_PERCENT)?;
    let load = device.load();
    let filled = load.fill().and_then(|()| device.db.settle());
    let alive = device.alive() * 100.0;
    for (workload, put_percent, keys) in YCSB {
        let case = format!("{YCSB_PREFIX}-{workload}/{fill}%-alive");
        let row = |metric, value, unit| row(name, &case, metric, value, unit);
        match filled.as_ref().err() {
            Some(error) if error.is_out_of_space() => {
                rows.push(row("void_no_room_at_percent", alive, "%"));
                continue;
            }
            Some(error) => return Err(error.clone().into()),
            None => device.host.set_timeless(false),
        }
        let moment = match load.run(Mix { put_percent, keys }, YCSB_SECONDS) {
            Err(error) if error.is_out_of_space() => {
                rows.push(row("void_no_room_at_percent", device.alive() * 100.0, "%"));
                break;
            }
            moment => moment?,
        };
        let (least, most) = device.storage.usage().erases;
        let measured = measured(name, &case, &moment);
        tell(&measured);
        rows.extend(measured);
        rows.push(row("alive_percent", alive, "%"));
        rows.push(row("erases_least", least.into(), "erases"));
        rows.push(row("erases_most", most.into(), "erases"));
    }
    Ok(rows)
}

/// Says how far it is: a full run takes minutes for each device.
fn tell(rows: &[Row]) {
    if let Some(first) = rows.first() {
        let parts = rows.iter().map(|row| format!("{} {:.1}", row.metric, row.value));
        let parts: Vec<String> = parts.collect();
        eprintln!("{} {}: {}", first.case, first.engine, parts.join(", "));
    }
}

/// A device with a database on it, which is written without time until [`Device::begin`].
struct Device {
    host: Arc<Host>,
    storage: Arc<FlashStorage>,
    clock: Arc<SystemClock>,
    db: Db,
    store: Store,
    records: u64,
}

impl Device {
    fn new(form: Form, policy: Box<dyn Policy + Send>, records: u64) -> Outcome<Device> {
        let clock = Arc::new(SystemClock::new());
        let pace = Pace { clock: clock.clone(), dilation: DILATION, background: Arc::new(Threads) };
        let host = Arc::new(Host::paced(&preset(), form, policy.sending(), SEED, pace)?);
        let zones = Arc::new(ModelledZones::new(host.clone()));
        let storage = Arc::new(FlashStorage::placed_by(zones, policy)?);
        host.set_timeless(true);
        let db = open(&host, storage.clone())?;
        let keyspace = db.keyspace("load", KeyspaceSettings::default())?;
        let store = db.store(&keyspace);
        Ok(Device { host, storage, clock, db, store, records })
    }

    fn load(&self) -> Load<'_> {
        Load {
            store: &self.store,
            host: &self.host,
            storage: &self.storage,
            clock: &*self.clock,
            filled: self.records,
            records: self.records.into(),
        }
    }

    /// Lets compactions end; time passes from now on.
    fn begin(&self) -> Outcome<()> {
        self.db.settle()?;
        self.host.set_timeless(false);
        Ok(())
    }

    /// The part of the device that files have.
    fn alive(&self) -> f64 {
        let usage = self.storage.usage();
        usage.live_bytes as f64 / usage.good_bytes as f64
    }
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

/// `alone` is what shared units did without puts, `shared` what they did with as many.
fn of_one(policy: &str, case: &str, moment: &Moment, alone: &Moment, shared: &Moment) -> Vec<Row> {
    let row = |metric, value, unit| row(policy, case, metric, value, unit);
    let busy = alone.read_share * 100.0;
    if busy < BUSY_PERCENT {
        return vec![row("void_read_die_share_percent", busy, "%")];
    }
    if moment.written_per_put < shared.written_per_put * COMPACTED {
        return vec![row("void_written_per_put_byte", moment.written_per_put, "ratio")];
    }
    let percent = moment.reads_per_second / alone.reads_per_second * 100.0;
    let mut rows = vec![row("reads_percent_of_read_only", percent, "%")];
    rows.extend(measured(policy, case, moment));
    rows
}

fn measured(policy: &str, case: &str, moment: &Moment) -> Vec<Row> {
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
mod tests {
    use super::*;

    fn moment() -> Moment {
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
    fn reads_are_shown_as_a_part_of_reads_alone() {
        let alone = Moment { reads_per_second: 100.0, ..moment() };
        let rows = of_one("shared", "case", &moment(), &alone, &moment());
        assert_eq!((&rows[0].metric[..], rows[0].value), (METRICS[0], 50.0));
    }
}
