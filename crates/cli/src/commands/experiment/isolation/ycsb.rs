//! YCSB with the whole engine on the paced model, by how much of the device is alive.
//!
//! Each policy has one device, which is filled further after each of its measurements. How hot the write set is, how
//! much is moved and how evenly chunks wear comes out of the engine's own placement.

use super::device::{Device, policies};
use super::engine::measured;
use super::load::{Keys, Load, Mix, VALUE_BYTES};
use super::policies::PRESET;
use super::row;
use super::rows::Rows;
use crate::failure::Outcome;
use esker::Error;
use esker_bench::Row;
use esker_flash::Form;

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
/// So much of what is missing is added at a time: what is not alive for good goes when compaction has nothing to do.
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
    had no room for the load, and says how much was alive when that was found.";

pub(super) fn settings() -> Vec<(&'static str, String)> {
    vec![
        ("ycsb_forms", format!("{:?}", [Form::HostOnly.name()])),
        ("ycsb_workloads", format!("{:?}", WORKLOADS.map(|(name, ..)| name))),
        ("ycsb_fill_percents", format!("{FILLS:?}")),
        ("ycsb_seconds", SECONDS.to_string()),
    ]
}

pub(super) fn run(rows: &mut Rows) -> Outcome {
    for policy in policies(Form::HostOnly) {
        let name = policy.name();
        let device = Device::with_esker(Form::HostOnly, policy)?;
        let load = Load::on(&device);
        // What was not written for want of room is missing from then on.
        let mut room = Ok(());
        for fill in FILLS {
            rows.say(&format!("filling the device of {name} to {fill}%"));
            device.host.set_timeless(true);
            room = room.and_then(|()| fill_to(fill, &device, &load));
            for workload in WORKLOADS {
                let of_one =
                    room.clone().and_then(|()| of_one(name, &device, &load, fill, workload));
                room = of_one.as_ref().map(drop).map_err(Error::clone);
                let (name_of_load, ..) = workload;
                rows.add(of_one.or_else(|error| match error.is_out_of_space() {
                    true => Ok(vec![void(name, &case(name_of_load, fill), &device)]),
                    false => Err(error),
                })?);
            }
        }
    }
    Ok(())
}

fn case(workload: &str, fill: f64) -> String {
    format!("{PREFIX}-{workload}/{PRESET}/{fill}%-alive")
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

fn of_one(
    name: &str,
    device: &Device,
    load: &Load<'_>,
    fill: f64,
    (workload, put_percent, keys): (&str, u64, Keys),
) -> Result<Vec<Row>, Error> {
    let case = case(workload, fill);
    device.settle()?;
    let alive = device.alive_percent();
    let moment = load.run(Mix { put_percent, keys }, SECONDS)?;
    let erases = device.usage().erases;
    let mut rows = measured(name, &case, &moment);
    rows.push(row(name, &case, "alive_percent", alive, "%"));
    rows.push(row(name, &case, "erases_least", erases.least.into(), "erases"));
    rows.push(row(name, &case, "erases_most", erases.most.into(), "erases"));
    Ok(rows)
}
