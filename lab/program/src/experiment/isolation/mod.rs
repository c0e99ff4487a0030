//! `esker-lab experiment isolation`: what reads lose during writes inside a flash device, after the paper on
//! read/write isolation. All of it on a model.
//!
//! * [`capacity`]: how much of a device files can have, and what is written during that;
//! * [`policies`]: its third figure, the loss by write share on an open-channel device, for each policy
//!   and each form of the device;
//! * [`sequential`]: its first figure, reads and writes in one sequential mix on a conventional device;
//! * [`engine`]: its second figure, random reads and puts with the whole engine on the paced model, and
//!   [`ycsb`] there, both under what [`load`] does on a [`device`]; of a full run only;
//! * [`paper`]: what the paper reports.

mod capacity;
mod device;
mod engine;
mod load;
mod paper;
mod policies;
mod sequential;
mod ycsb;

use super::{Keep, Scale, Wishes};
use crate::experiment::rows::Rows;
use crate::failure::{Failure, Outcome};
use esker_bench::results::{Group, RUN, Settings};
use esker_bench::{Machine, Results, Row};

/// What is said wherever the results are shown.
const EMULATED: &str =
    "all devices are a model, and all times the model's: no flash was read or written";

/// How much is measured.
struct Sizes {
    /// Virtual time of each run.
    measured_ns: u64,
    /// How often the open-channel device is filled and measured.
    rounds: u32,
    /// Reads outstanding.
    depths: &'static [u32],
    /// Parts of the device that are alive, in addition to the usual one.
    fills: &'static [f64],
}

/// The parts of the experiment, by the names of their cases.
const PARTS: [&str; 5] = ["capacity", "policies", "sequential", "engine", "ycsb"];
/// Those of a quick run.
const QUICK: usize = 3;

/// The parts that were asked for.
fn parts(wishes: &Wishes<'_>) -> Outcome<Vec<&'static str>> {
    let Some(cases) = wishes.cases else {
        let count = if wishes.scale == Scale::Quick { QUICK } else { PARTS.len() };
        return Ok(PARTS[..count].to_vec());
    };
    let of_name = |name: &str| {
        let found = PARTS.into_iter().find(|part| *part == name);
        found.ok_or_else(|| {
            let there = PARTS.join(", ");
            Failure::Usage(format!("--cases: isolation has no {name:?}; there are {there}"))
        })
    };
    cases.split(',').map(of_name).collect()
}

/// All that these parts go by.
fn settings(parts: &[&str], sizes: &Sizes, is_quick: bool) -> Settings {
    let mut all = vec![("seed", SEED.to_string())];
    for part in parts {
        all.extend(match *part {
            "capacity" => capacity::settings(is_quick),
            "policies" => policies::settings(sizes),
            "sequential" => sequential::settings(sizes),
            "engine" => [engine::settings(), device::settings()].concat(),
            _ => [ycsb::settings(), device::settings()].concat(),
        });
    }
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Seconds of the model, as they are shown.
fn seconds(ns: u64) -> String {
    (ns as f64 / 1e9).to_string()
}

/// Runs it.
///
/// What is known is handed to `so_far` whenever it is more.
pub fn results(wishes: &Wishes<'_>, so_far: Keep<'_>) -> Outcome<Results> {
    let sizes = match wishes.scale {
        Scale::Quick => Sizes { measured_ns: 300_000_000, rounds: 1, depths: &[64], fills: &[] },
        Scale::Full => Sizes {
            measured_ns: 1_000_000_000,
            rounds: 2,
            depths: &[64, 16, 256],
            fills: &[policies::FULL],
        },
    };
    let (parts, is_quick) = (parts(wishes)?, wishes.scale == Scale::Quick);
    let none = Results {
        experiment: "isolation".to_owned(),
        scale: wishes.scale.name().to_owned(),
        command: std::env::args().collect(),
        machine: Machine::of(std::path::Path::new(".")),
        started: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: env!("ESKER_COMMIT").to_owned(),
        emulated: vec![EMULATED.to_owned()],
        settings: [(RUN.to_owned(), settings(&parts, &sizes, is_quick))].into(),
        published: paper::published(),
        ..Results::default()
    };
    let of = |rows: Vec<Row>| Results { groups: groups(&rows), rows, ..none.clone() };
    let mut keep = |rows: &[Row]| so_far(&of(rows.to_vec()));
    let mut rows = Rows::new(&mut keep);
    for part in parts {
        match part {
            "capacity" => capacity::run(is_quick, &mut rows)?,
            "policies" => policies::run(&sizes, &mut rows),
            "sequential" => sequential::run(&sizes, &mut rows),
            "engine" => engine::run(&mut rows)?,
            _ => ycsb::run(&mut rows)?,
        }
    }
    Ok(Results { complete: true, ..of(rows.all()?) })
}

fn groups(rows: &[Row]) -> Vec<Group> {
    let group = |title: &str, about: &str, prefix: &str, metrics: &[&str]| Group {
        title: title.to_owned(),
        about: about.to_owned(),
        cases: cases(rows, prefix),
        metrics: metrics.iter().map(|&metric| metric.to_owned()).collect(),
        ..Group::default()
    };
    vec![
        group("Open-channel device", policies::ABOUT, policies::PRESET, &policies::METRICS),
        group("The engine on the paced model", engine::ABOUT, engine::PREFIX, &engine::METRICS),
        group("YCSB on the paced model", ycsb::ABOUT, ycsb::PREFIX, &ycsb::METRICS),
        group("A device that is filled", capacity::ABOUT, capacity::PREFIX, &capacity::METRICS),
        group("Sequential mix", sequential::ABOUT, sequential::PRESET, &sequential::METRICS),
    ]
}

const SEED: u64 = 1;

fn row(engine: &str, case: &str, metric: &str, value: f64, unit: &str) -> Row {
    let own = str::to_owned;
    let (engine, case, metric, unit) = (own(engine), own(case), own(metric), own(unit));
    Row { engine, case, metric, value, unit, round: 0 }
}

fn cases(rows: &[Row], prefix: &str) -> Vec<String> {
    let mut cases: Vec<String> = Vec::new();
    for row in rows.iter().filter(|row| row.case.starts_with(prefix)) {
        if !cases.contains(&row.case) {
            cases.push(row.case.clone());
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_bench::results::Figure;

    #[test]
    fn results_tell_the_settings_of_the_parts_that_ran_and_of_no_others() {
        let sizes = Sizes { measured_ns: 1_500_000_000, rounds: 1, depths: &[64], fills: &[] };
        let of = |parts: &[&str]| settings(parts, &sizes, true);
        let all = of(&PARTS);
        for (name, value) in [
            ("policies_seconds", "1.5"),
            ("policies_planes", "4"),
            ("policies_independent_plane_reads", "false"),
            ("sequential_planes", "2"),
            ("device_independent_plane_reads", "false"),
            ("engine_seconds", "0.75"),
            ("ycsb_seconds", "0.4"),
            ("device_chunk_bytes", "524288"),
            ("device_segment_bytes", "524288"),
            ("capacity_chunk_bytes", "262144"),
        ] {
            assert_eq!(all.get(name).map(String::as_str), Some(value), "{name}");
        }
        let some = of(&["capacity"]);
        assert!(
            some.keys().all(|name| name == "seed" || name.starts_with("capacity_")),
            "{some:?}"
        );
        for part in ["engine", "ycsb"] {
            assert!(of(&[part]).contains_key("device_chunk_bytes"), "{part} has a device");
        }
        let of_parts = PARTS.map(|part| of(&[part]).len() - 1);
        assert!(of_parts.iter().all(|count| *count >= 3), "{of_parts:?}");
    }

    /// Of the part that is over soon.
    #[test]
    fn what_is_published_is_shown_beside_rows_that_there_are() {
        let sizes = Sizes { measured_ns: 2_000_000, rounds: 1, depths: &[64], fills: &[] };
        let mut kept = Vec::new();
        let mut keep = |rows: &[Row]| {
            kept.push(rows.len());
            Ok(())
        };
        let mut rows = Rows::new(&mut keep);
        sequential::run(&sizes, &mut rows);
        let rows = rows.all().unwrap();
        let published = paper::published().into_iter().flat_map(|published| published.figures);
        let (mut figures, mut found) = (0, 0);
        for Figure { engine, case, metric, .. } in published {
            if case.starts_with(sequential::PRESET) {
                figures += 1;
                let is_it =
                    |row: &&Row| (&row.engine, &row.case, &row.metric) == (&engine, &case, &metric);
                found += rows.iter().filter(is_it).count();
            }
        }
        assert_eq!((figures, found), (2, 2));
        assert!(kept.len() > 20 && kept.is_sorted(), "they are kept as they come");
        assert_eq!(kept.last(), Some(&rows.len()));
    }

    #[test]
    fn parts_are_those_asked_for_or_those_of_the_scale() {
        let quick = Wishes::default();
        assert_eq!(parts(&quick).unwrap(), ["capacity", "policies", "sequential"]);
        let full = Wishes { scale: Scale::Full, ..quick };
        assert_eq!(parts(&full).unwrap(), PARTS);
        let some = Wishes { cases: Some("ycsb,capacity"), ..quick };
        assert_eq!(parts(&some).unwrap(), ["ycsb", "capacity"]);
        let unknown = Wishes { cases: Some("ycsb,fio"), ..quick };
        let refused = parts(&unknown).unwrap_err();
        assert!(
            matches!(&refused, Failure::Usage(what) if what.contains("isolation has no \"fio\""))
        );
    }
}
