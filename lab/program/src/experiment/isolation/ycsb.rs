//! YCSB with the whole engine on the paced model, by how much of the device is alive.
//!
//! Each policy has one device, which is filled further after each of its measurements. How hot the write set is, how
//! much is moved and how evenly chunks wear comes out of the engine's own placement.

use super::device::{Device, NAME, policies};
use super::engine::{behind, measured};
use super::load::{Keys, Load, MixedLoad, Moment, VALUE_BYTES};
use super::row;
use crate::experiment::rows::Rows;
use crate::failure::Outcome;
use esker::Error;
use esker_bench::Row;
use esker_flash::ReadPriority;
use esker_flash::storage::EraseCounts;
use std::collections::BTreeMap;

/// What cases of YCSB begin with.
pub(super) const PREFIX: &str = "ycsb";

/// How long each load is measured, in the model's time.
const SECONDS: f64 = 0.4;
/// YCSB's workloads: puts of a hundred operations, and which records.
const WORKLOADS: [(&str, u64, Keys); 3] =
    [("a", 50, Keys::Zipfian), ("b", 5, Keys::Zipfian), ("d", 5, Keys::Latest)];
/// How much of the device is to be alive, in percent.
const FILLS: [f64; 3] = [50.0, 80.0, 93.0];
/// A device is filled as far as this from there.
const NEAR_PERCENT: f64 = 0.5;
/// So much of what is missing is added at a time: obsolete data is removed when compaction has nothing else to do.
const STEP: f64 = 0.75;

pub(super) const METRICS: [&str; 8] = [
    "throughput",
    "latency_p50_us",
    "latency_p99_us",
    "latency_p999_us",
    "write_set_heat",
    "media_over_host_bytes",
    "erases_least",
    "erases_most",
];

pub(super) const ABOUT: &str = "\
    YCSB A, B and D on the same device, host-only, by the part of it that files have when the load begins, \
    when compactions have ended; throughput and latencies are of reads. Media over host bytes counts what \
    was moved to make room and the storage's own journal, and erases are those of the chunk that was erased \
    least and of the one that was erased most, both since the device was made. A row is void if the device \
    had no room for the load, and says how much was alive when that was found; or if for each byte put less \
    than half of what shared units wrote was written, or less than two bytes: then compaction fell behind.";

pub(super) fn settings() -> Vec<(&'static str, String)> {
    vec![
        ("ycsb_forms", format!("{:?}", [ReadPriority::HostOnly.name()])),
        ("ycsb_workloads", format!("{:?}", WORKLOADS.map(|(name, ..)| name))),
        ("ycsb_fill_percents", format!("{FILLS:?}")),
        ("ycsb_seconds", SECONDS.to_string()),
    ]
}

pub(super) fn run(rows: &mut Rows<'_>) -> Outcome {
    // What shared units did, which come first, by the case.
    let mut shared = BTreeMap::new();
    for policy in policies(ReadPriority::HostOnly) {
        let name = policy.name();
        let device = Device::with_esker(ReadPriority::HostOnly, policy)?;
        let load = Load::on(&device);
        // What was not written for want of room is missing from then on.
        let mut room = Ok(());
        for fill in FILLS {
            rows.say(&format!("filling the device of {name} to {fill}%"));
            device.host.set_timeless(true);
            room = room.and_then(|()| fill_to(fill, &device, &load));
            for workload in WORKLOADS {
                let (name_of_load, ..) = workload;
                let case = case(name_of_load, fill);
                let done = room.clone().and_then(|()| measure(&device, &load, workload));
                room = done.as_ref().map(drop).map_err(Error::clone);
                rows.add(match done {
                    Ok(done) => {
                        // Where shared units had no room, the first that had.
                        let shared = shared.entry(case.clone()).or_insert(done.moment.clone());
                        of_one(name, &case, &done, shared)
                    }
                    Err(error) if error.is_out_of_space() => vec![void(name, &case, &device)],
                    Err(error) => return Err(error.into()),
                });
            }
        }
    }
    Ok(())
}

fn case(workload: &str, fill: f64) -> String {
    format!("{PREFIX}-{workload}/{NAME}/{fill}%-alive")
}

fn void(name: &str, case: &str, device: &Device) -> Row {
    row(name, case, "void_no_room_at_percent", device.alive_percent(), "%")
}

/// Adds records until so much is alive when compaction has nothing to do.
fn fill_to(percent: f64, device: &Device, load: &Load<'_>) -> Result<(), Error> {
    loop {
        let missing = percent - device.alive_percent();
        if missing <= NEAR_PERCENT {
            return Ok(());
        }
        let bytes = device.usage().good_bytes as f64 * missing / 100.0;
        load.grow((bytes * STEP) as u64 / VALUE_BYTES as u64)?;
        device.settle()?;
    }
}

/// What came out of one load, what was alive before it, and how worn the device was after it.
struct Done {
    moment: Moment,
    alive_percent: f64,
    erases: EraseCounts,
}

fn measure(
    device: &Device,
    load: &Load<'_>,
    (_, put_percent, keys): (&str, u64, Keys),
) -> Result<Done, Error> {
    device.settle()?;
    let alive_percent = device.alive_percent();
    let moment = load.run(MixedLoad { put_percent, keys }, SECONDS)?;
    Ok(Done { moment, alive_percent, erases: device.usage().erases })
}

/// `shared` is what shared units did in the same case.
fn of_one(policy: &str, case: &str, done: &Done, shared: &Moment) -> Vec<Row> {
    if let Some(void) = behind(policy, case, &done.moment, shared) {
        return vec![void];
    }
    let mut rows = measured(policy, case, &done.moment);
    rows.push(row(policy, case, "alive_percent", done.alive_percent, "%"));
    rows.push(row(policy, case, "erases_least", done.erases.least.into(), "erases"));
    rows.push(row(policy, case, "erases_most", done.erases.most.into(), "erases"));
    rows
}

#[cfg(test)]
mod tests {
    use super::super::engine::tests::moment;
    use super::*;

    fn done(written_per_put: f64) -> Done {
        let moment = Moment { written_per_put, ..moment() };
        let erases = EraseCounts { least: 0, mean: 1.0, most: 2 };
        Done { moment, alive_percent: 80.0, erases }
    }

    fn metrics(policy: &str, written_per_put: f64, of_shared: f64) -> Vec<String> {
        let rows = of_one(policy, "case", &done(written_per_put), &done(of_shared).moment);
        rows.into_iter().map(|row| row.metric).collect()
    }

    #[test]
    fn a_row_is_void_if_compaction_fell_behind() {
        assert_eq!(metrics("even", 2.9, 6.0), ["void_written_per_put_byte"]);
        assert_eq!(metrics("shared", 1.9, 1.9), ["void_written_per_put_byte"]);
    }

    #[test]
    fn a_row_in_which_compaction_kept_up_shows_what_was_alive_and_how_worn_the_device_is() {
        let metrics = metrics("even", 3.1, 6.0);
        assert_eq!(metrics[metrics.len() - 3..], ["alive_percent", "erases_least", "erases_most"]);
        assert_eq!(metrics[0], "throughput");
    }
}
