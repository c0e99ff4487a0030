//! The loss of random reads during writes on the open-channel device.

use super::{SEED, Sizes, row, seconds};
use crate::experiment::rows::Rows;
use esker_bench::Row;
use esker_flash::device::sim;
use esker_flash::interference::{InterferenceTest, LEVELS, Measurement};
use esker_flash::placement::{AllUnits, FixedSets, PlacementPolicy, Rotating};
use esker_flash::{Preset, ReadPriority};

/// The device.
pub(super) const PRESET: &str = "cnex-mlc";
/// The part of the device that is alive.
pub(super) const FILL: f64 = 0.8;
/// The part that is alive on a device that is as full as it should get (`capacity`).
pub(super) const FULL: f64 = 0.93;

/// Write rates, the part of all dies' time that they take, and the units of a small set for them: half as
/// many again as they keep busy.
const RATES: [(u64, &str, usize); 3] =
    [(187_000_000, "3%", 6), (375_000_000, "6%", 12), (750_000_000, "12.5%", 24)];

/// More than placement hides: there writers are throttled.
const TOO_MUCH: (u64, &str, usize) = (1_500_000_000, "25%", 48);

/// Reads that the device takes at a time where it takes fewer than are outstanding.
const SLOTS: u32 = 32;
/// The rate of no writes, as cases call it.
const ALONE: &str = "0%";

pub(super) const METRICS: [&str; 8] = [
    "read_drop_percent",
    "void_written_part",
    "alive_percent",
    "written_percent",
    "latency_p999_us",
    "p999_beside_read_only",
    "write_die_share_percent",
    "write_set_heat",
];

pub(super) const ABOUT: &str = "\
    Random reads of 4 KiB, 64 outstanding unless the case says otherwise, beside writes at a fixed rate; \
    shared and rotating place data on a device of which 80% is alive unless the case says otherwise, halves \
    and small-set fill as much of the units that they read, which is less of the device (alive_percent); \
    a case names the device, the part of its dies' time that writes take, and what the device does by \
    itself: nothing (host-only), or stop a program for a read in so many microseconds, reads going first on \
    dies and channels. Of halves and small-set, what is read is never written, as in the paper; rotating \
    places a leveled tree's tables, of which all is read alike; it goes on reading what the two last \
    levels' tables replace until about a unit is full, as the engine does below its base level on 48 units \
    or more (not in engine and ycsb), and \
    rotating-eager reads them as soon as they are closed. Rotating is told how many units what is written keeps busy; under the engine it takes \
    that to be an eighth of them, whatever is written. Where writes missed their rate, the row is void and \
    gives only the part that was written (void_written_part; a hundredth and 10 ms of writes may be missing). \
    At 25% of the dies' time rotating holds writers back, rotating-unheld does not, and both say how much \
    was written of what was asked for. The drop is against reads alone, shared. Where a case names slots, the device \
    takes so many of the reads at a time; rotating sends first the read whose unit will be free soonest, \
    rotating-in-order the oldest, and the drop is against the oldest first without writes (0%).";

pub(super) fn settings(sizes: &Sizes) -> Vec<(&'static str, String)> {
    let preset = Preset::named(PRESET).expect("it comes with the program");
    let rates = RATES.iter().chain([&TOO_MUCH]);
    let bytes: Vec<u64> = rates.clone().map(|(bytes, ..)| *bytes).collect();
    let small: Vec<usize> = rates.map(|(.., small)| *small).collect();
    vec![
        ("policies_preset", PRESET.to_owned()),
        ("policies_planes", preset.geometry().planes.to_string()),
        ("policies_independent_plane_reads", preset.has_independent_plane_reads().to_string()),
        ("policies_forms", format!("{:?}", ReadPriority::ALL.map(ReadPriority::name))),
        ("policies_suspends_most", sim::SUSPENDS_MOST.to_string()),
        ("policies_write_deadline_ns", sim::WRITE_DEADLINE_NS.to_string()),
        ("policies_seconds", seconds(sizes.measured_ns)),
        ("policies_rounds", sizes.rounds.to_string()),
        ("policies_read_depths", format!("{:?}", sizes.depths)),
        ("policies_slots", SLOTS.to_string()),
        ("policies_fills", format!("{:?}", [&[FILL][..], sizes.fills].concat())),
        ("policies_write_bytes_per_second", format!("{bytes:?}")),
        ("policies_small_set_units", format!("{small:?}")),
    ]
}

pub(super) fn run(sizes: &Sizes, rows: &mut Rows<'_>) {
    for round in 0..sizes.rounds {
        // Of the further rounds, what is compared with the paper.
        let depths = if round == 0 { sizes.depths } else { &sizes.depths[..1] };
        for &depth in depths {
            one_round(sizes, round, FILL, depth, rows);
        }
    }
    for &fill in sizes.fills {
        one_round(sizes, 0, fill, sizes.depths[0], rows);
    }
}

/// Devices of other rounds are bad at other places, and filled otherwise.
fn one_round(sizes: &Sizes, round: u32, fill: f64, depth: u32, rows: &mut Rows<'_>) {
    let preset = Preset::named(PRESET).expect("it comes with the program");
    let trial = InterferenceTest {
        preset: preset.clone(),
        form: ReadPriority::HostOnly,
        reads: depth,
        slots: None,
        write_bytes_per_second: 0,
        fill,
        measured_ns: sizes.measured_ns,
        seed: SEED + u64::from(round),
    };
    let alone = trial.run(&mut AllUnits);
    let is_usual = (depth, fill) == (sizes.depths[0], FILL);
    if is_usual && round == 0 {
        with_slots(&trial, rows);
    }
    for (rate, share, small) in RATES.into_iter().chain(is_usual.then_some(TOO_MUCH)) {
        let is_too_much = rate == TOO_MUCH.0;
        // Where programs give way to reads, no writer is held back.
        let forms = if is_too_much { &ReadPriority::ALL[..1] } else { &ReadPriority::ALL[..] };
        for &form in forms {
            let trial = InterferenceTest { form, write_bytes_per_second: rate, ..trial.clone() };
            let mut case = format!("{PRESET}/{share}/{}", form.name());
            if depth != 64 {
                case += &format!("/depth-{depth}");
            }
            if fill != FILL {
                case += &format!("/{}%-alive", fill * 100.0);
            }
            let policies = match (is_too_much, fill == FILL) {
                (true, _) => held(&preset, form),
                (false, true) => all(&preset, small, form),
                // Static sets leave the rest of the device unused: they are never as full.
                (false, false) => placing(&preset, form),
            };
            for mut policy in policies {
                let measured = trial.run(&mut *policy);
                let of_one = match is_too_much {
                    true => of_held(policy.name(), &case, &measured, &alone, rate),
                    false => of_one(policy.name(), &case, &measured, &alone, rate),
                };
                rows.add(of_one.into_iter().map(|row| Row { round, ..row }).collect());
            }
        }
    }
}

/// With fewer slots than reads. None of the writes' rates is so high that writers are throttled.
fn with_slots(trial: &InterferenceTest, rows: &mut Rows<'_>) {
    let trial = InterferenceTest { slots: Some(SLOTS), ..trial.clone() };
    let of = || rotating(&trial.preset, trial.form);
    let alone = trial.run(&mut of().in_order());
    for (rate, share, _) in [(0, ALONE, 0), RATES[1], RATES[2]] {
        let trial = InterferenceTest { write_bytes_per_second: rate, ..trial.clone() };
        let case = format!("{PRESET}/{share}/{}/{SLOTS}-slots", trial.form.name());
        for mut policy in [of().in_order(), of()] {
            let measured = trial.run(&mut policy);
            let name = policy.name();
            rows.add(of_one(name, &case, &measured, &alone, rate));
        }
    }
}

fn rotating(preset: &Preset, form: ReadPriority) -> Rotating {
    Rotating::new(LEVELS, form != ReadPriority::HostOnly, preset.channel_units())
}

/// With writers throttled, and without.
fn held(preset: &Preset, form: ReadPriority) -> Vec<Box<dyn PlacementPolicy>> {
    vec![Box::new(rotating(preset, form)), Box::new(rotating(preset, form).unheld())]
}

/// Those that place what is read.
fn placing(preset: &Preset, form: ReadPriority) -> Vec<Box<dyn PlacementPolicy>> {
    vec![
        Box::new(AllUnits),
        Box::new(rotating(preset, form)),
        Box::new(rotating(preset, form).eager()),
    ]
}

fn all(preset: &Preset, small: usize, form: ReadPriority) -> Vec<Box<dyn PlacementPolicy>> {
    let geometry = preset.geometry();
    let mut all = placing(preset, form);
    all.push(Box::new(FixedSets::halves(&geometry)));
    all.push(Box::new(FixedSets::small_set(&geometry, small)));
    all
}

/// Where writers are throttled, less is written than was asked for.
fn of_held(
    policy: &str,
    case: &str,
    measured: &Measurement,
    alone: &Measurement,
    rate: u64,
) -> Vec<Row> {
    let percent = measured.written_per_second / rate as f64 * 100.0;
    let mut rows = vec![row(policy, case, "written_percent", percent, "%")];
    rows.extend(of_measured(policy, case, measured, alone));
    rows
}

fn of_one(
    policy: &str,
    case: &str,
    measured: &Measurement,
    alone: &Measurement,
    rate: u64,
) -> Vec<Row> {
    let row = |metric, value, unit| row(policy, case, metric, value, unit);
    if !measured.writes_met {
        let part = measured.written_per_second / rate as f64;
        return vec![row("void_written_part", part, "share")];
    }
    of_measured(policy, case, measured, alone)
}

fn of_measured(policy: &str, case: &str, measured: &Measurement, alone: &Measurement) -> Vec<Row> {
    let row = |metric, value, unit| row(policy, case, metric, value, unit);
    let micros = |part| f64::from(measured.latency(part)) / 1e3;
    let tail = f64::from(measured.latency(0.999)) / f64::from(alone.latency(0.999));
    let drop = 100.0 * (1.0 - measured.reads_per_second / alone.reads_per_second);
    vec![
        row("read_drop_percent", drop, "%"),
        row("throughput", measured.reads_per_second, "ops/s"),
        row("latency_p50_us", micros(0.5), "us"),
        row("latency_p99_us", micros(0.99), "us"),
        row("latency_p999_us", micros(0.999), "us"),
        row("p999_beside_read_only", tail, "ratio"),
        row("write_bytes_per_second", measured.written_per_second, "B/s"),
        row("write_die_share_percent", measured.write_share * 100.0, "%"),
        row("write_set_heat", measured.heat, "ratio"),
        row("alive_percent", measured.alive * 100.0, "%"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(reads: f64, writes_met: bool) -> Measurement {
        Measurement {
            reads_per_second: reads,
            latencies: vec![100_000; 10],
            written_per_second: 90.0,
            write_share: 0.1,
            writes_met,
            heat: 0.2,
            unevenness: 1.0,
            alive: 0.8,
            events: 1,
        }
    }

    #[test]
    fn a_row_whose_writes_missed_their_rate_is_void() {
        let rows = of_one("shared", "case", &measured(50.0, false), &measured(100.0, true), 100);
        let metrics: Vec<&str> = rows.iter().map(|row| &row.metric[..]).collect();
        assert_eq!((metrics, rows[0].value), (vec!["void_written_part"], 0.9));
    }

    #[test]
    fn the_drop_is_against_reads_alone() {
        let rows = of_one("shared", "case", &measured(75.0, true), &measured(100.0, true), 100);
        assert_eq!((&rows[0].metric[..], rows[0].value), ("read_drop_percent", 25.0));
    }
}
