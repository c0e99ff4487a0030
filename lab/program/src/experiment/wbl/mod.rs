//! `esker-lab experiment wbl`: write-behind logging on persistent memory, after the paper of that name.
//!
//! * [`sizes`]: how much is measured;
//! * [`cases`]: what: the workloads of the paper in two shapes, the effect of each setting that the design
//!   brings with it, and inserts over time;
//! * [`paper`]: what the paper reports.
//!
//! A store that puts work off looks fast until the work is done. So each workload is measured as a
//! burst that the pool takes in, and again with everything that it causes.

mod cases;
mod paper;
mod sizes;

use super::{Room, Scale, Wishes, those_built_in};
use crate::bench::campaign::{Campaign, MEMORY};
use crate::bench::engines::{self, EngineSettings, ForwardingName};
use crate::bench::options::parse_engines;
use crate::bench::plan::Task;
use crate::bench::pool::PoolSettings;
use crate::bench::ycsb;
use crate::failure::Outcome;
use cases::Plan;
use esker_bench::WarmUp;
use esker_workload::ycsb::Preset;
use sizes::Sizes;

/// The engine that it is about.
const WBL: &str = "esker-wbl";

/// What it is compared with, as far as it is built in.
const ENGINES: [&str; 6] =
    [WBL, "esker-wal", "esker-nolog", "esker-novelsm", "rocksdb-wal", "rocksdb-nolog"];

/// The campaign.
pub fn campaign(wishes: &Wishes<'_>, room: &Room) -> Outcome<Campaign> {
    let list = wishes.engines.map_or_else(|| those_built_in(&ENGINES), str::to_owned);
    let sizes = Sizes::of(wishes.scale, list.split(',').count(), room)?;
    let settings = EngineSettings {
        memory_bytes: sizes.memory_bytes,
        segment_bytes: sizes.segment_bytes,
        background_threads: 2,
        compression: "none".to_owned(),
        dram_table_bytes: None,
        forwarding: ForwardingName::default(),
        pool: PoolSettings { pool: sizes.pool_bytes, ..PoolSettings::default() },
        log_dir: None,
        fabric: Default::default(),
        large_store: Default::default(),
    };
    let unaffected = Plan { sizes: &sizes, settings: &settings, affected: &[] };
    let loaded = unaffected.task(Preset::A, sizes.operations);
    let pair_bytes = Task::YcsbRun(loaded.clone()).pair_bytes()?;
    let engines = parse_engines(&list, &settings, pair_bytes)?;
    let affected: Vec<String> = engines.iter().filter(|name| *name == WBL).cloned().collect();
    let mut parts = Plan { affected: &affected, ..unaffected }.parts()?;
    if let Some(wanted) = wishes.cases {
        parts = cases::chosen(parts, wanted)?;
    }
    let (cases, groups): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let cases = cases.concat();
    for case in &cases {
        let Some(own) = &case.settings else { continue };
        let takes_part = case.engines.as_ref().unwrap_or(&engines);
        takes_part.iter().try_for_each(|engine| engines::check(engine, own, false))?;
    }
    let mut run_settings = ycsb::run_settings(&loaded)?;
    run_settings.extend(sizes.named().map(|(name, value)| (name.to_owned(), value)));
    run_settings.insert("workload F".to_owned(), F.to_owned());
    // Full runs touch many times what quick ones do. What it is like then is told once it was filled.
    let uses_memory = wishes.scale == Scale::Full;
    if !uses_memory {
        run_settings.insert(MEMORY.to_owned(), "as it is".to_owned());
    }
    let reads = sizes.read_from(engines.len(), room);
    run_settings.insert("reads of tables".to_owned(), reads.to_owned());
    Ok(Campaign {
        experiment: "wbl".to_owned(),
        scale: wishes.scale.name().to_owned(),
        published: paper::published(&engines),
        engines,
        settings,
        rounds: wishes.rounds.unwrap_or(sizes.rounds),
        load: Some(ycsb::load(loaded)?),
        shared: None,
        analysis: None,
        uses_memory,
        memory_limit: None,
        cases,
        warm_up: WarmUp::Operations(sizes.warm_up_operations),
        seed: 1,
        run_settings,
        groups,
    })
}

/// Which F it is.
const F: &str =
    "read-modify-writes alone, the workload rmw, as in the paper; YCSB's F is half reads";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::campaign::Rate;
    use crate::failure::Failure;

    const ROOMY: Room =
        Room { memory_bytes: 32 << 30, disk_bytes: 500 << 30, pool_bytes: 16 << 30 };

    fn of(scale: Scale) -> Campaign {
        campaign(&Wishes { scale, ..Wishes::default() }, &ROOMY).unwrap()
    }

    fn names(campaign: &Campaign) -> Vec<&str> {
        campaign.cases.iter().map(|case| &case.name[..]).collect()
    }

    #[test]
    fn every_case_of_the_paper_is_there_at_both_scales() {
        for scale in [Scale::Quick, Scale::Full] {
            let campaign = of(scale);
            let names = names(&campaign);
            for letter in ["A", "B", "C", "D", "F", "G", "H"] {
                assert!(names.contains(&letter) && names.contains(&&format!("{letter}-burst")[..]));
            }
            let mut once = names.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), names.len(), "{names:?}");
            let grouped: Vec<&str> = campaign
                .groups
                .iter()
                .flat_map(|group| &group.cases)
                .map(|case| &case[..])
                .collect();
            assert_eq!(grouped, names, "every case is shown, in its order");
        }
    }

    #[test]
    fn full_runs_alone_fill_memory_and_others_say_that_it_is_as_it_is() {
        for (scale, uses_memory) in [(Scale::Quick, false), (Scale::Full, true)] {
            let campaign = of(scale);
            assert_eq!(campaign.uses_memory, uses_memory);
            let said = campaign.run_settings.get(MEMORY).map(|said| &said[..]);
            assert_eq!(said, (!uses_memory).then_some("as it is"));
        }
    }

    #[test]
    fn effects_have_cases_of_their_own() {
        let campaign = of(Scale::Full);
        let names = names(&campaign);
        for name in [
            "B dram=0",
            "A forwarding=on-flush",
            "A forwarding=always",
            "A forwarding=adaptive",
            "A forwarding=adaptive delay=300ns",
            "G pool=1GiB",
            "G pool=8GiB",
            "A delay=0ns",
            "A delay=100ns",
            "A delay=300ns",
            "A delay=600ns",
            "G closed-loop",
            "G open-loop",
        ] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
    }

    #[test]
    fn a_case_changes_what_its_name_says_and_nothing_else() {
        let campaign = of(Scale::Quick);
        let own = |name: &str| {
            let case = campaign.cases.iter().find(|case| case.name == name).unwrap();
            case.settings.clone().unwrap()
        };
        let with = |change: &dyn Fn(&mut EngineSettings)| {
            let mut settings = campaign.settings.clone();
            change(&mut settings);
            settings
        };
        assert_eq!(own("B dram=0"), with(&|own| own.dram_table_bytes = Some(0)));
        assert_eq!(own("G pool=16MiB"), with(&|own| own.pool.pool = 16 << 20));
        assert_eq!(own("A delay=600ns"), with(&|own| own.pool.pool_delay = 600));
        let always = |own: &mut EngineSettings| own.forwarding = ForwardingName::Always;
        assert_eq!(own("A forwarding=always"), with(&always));
        assert_eq!(campaign.cases.iter().filter(|case| !case.settles).count(), 7, "bursts alone");
    }

    #[test]
    fn every_engine_has_the_same_data_when_a_case_begins_to_count() {
        for scale in [Scale::Quick, Scale::Full] {
            let campaign = of(scale);
            for case in &campaign.cases {
                let warm_up = case.warm_up.unwrap_or(campaign.warm_up);
                assert!(matches!(warm_up, WarmUp::Operations(_)), "{}: {warm_up:?}", case.name);
            }
        }
    }

    #[test]
    fn a_table_of_copies_is_filled_before_it_is_measured() {
        for scale in [Scale::Quick, Scale::Full] {
            let campaign = of(scale);
            let of_dram = campaign.cases.iter().filter(|case| case.name.contains("dram="));
            let warm_ups: Vec<_> = of_dram.map(|case| case.warm_up).collect();
            assert_eq!(warm_ups.len(), 5);
            let enough =
                |warm_up: &Option<WarmUp>| matches!(warm_up, Some(WarmUp::Operations(1..)));
            assert!(warm_ups.iter().all(enough), "{warm_ups:?}");
        }
    }

    #[test]
    fn the_report_says_whether_the_data_fits_in_memory() {
        let said = |memory_bytes| {
            let room = Room { memory_bytes, ..ROOMY };
            let campaign = campaign(&Wishes::default(), &room).unwrap();
            campaign.run_settings["reads of tables"].clone()
        };
        assert!(said(24 << 30).contains("of all engines fits"));
        assert!(said(1 << 27).contains("does not fit"));
    }

    #[test]
    fn f_is_the_papers() {
        let campaign = of(Scale::Quick);
        for name in ["F", "F-burst"] {
            let case = campaign.cases.iter().find(|case| case.name == name).unwrap();
            let Task::YcsbRun(task) = &case.task else { panic!("{:?}", case.task) };
            let mix = task.resolve().unwrap().options.mix;
            assert_eq!((mix.read_modify_write, mix.read), (1.0, 0.0));
        }
    }

    #[test]
    fn the_open_loop_has_a_part_of_the_rate_of_the_closed_one() {
        let campaign = of(Scale::Quick);
        let place = |name: &str| campaign.cases.iter().position(|case| case.name == name).unwrap();
        let (closed, open) = (place("G closed-loop"), place("G open-loop"));
        assert!(closed < open);
        let rate = Rate::Part { of: "G closed-loop".into(), part: 0.7 };
        assert_eq!(campaign.cases[open].rate, Some(rate));
        assert!(campaign.cases[closed].settles && campaign.cases[closed].rate.is_none());
    }

    #[test]
    fn without_its_engine_there_are_neither_effects_nor_figures_of_the_paper() {
        let engines = Some("esker-wal,esker-nolog");
        let campaign = campaign(&Wishes { engines, ..Wishes::default() }, &ROOMY).unwrap();
        assert!(campaign.published.is_empty());
        assert!(names(&campaign).iter().all(|name| !name.contains('=')));
    }

    #[test]
    fn engines_that_there_are_not_are_refused() {
        for bad in ["", "none", "esker-wbl,esker-wbl"] {
            let refused = campaign(&Wishes { engines: Some(bad), ..Wishes::default() }, &ROOMY);
            assert!(matches!(refused, Err(Failure::Usage(_))), "{bad}");
        }
    }

    #[test]
    fn cases_and_rounds_can_be_chosen() {
        let cases = Some("H,D-burst,A delay=300ns");
        let campaign = campaign(&Wishes { cases, rounds: Some(5), ..Wishes::default() }, &ROOMY);
        let campaign = campaign.unwrap();
        assert_eq!(names(&campaign), ["D-burst", "H", "A delay=300ns"], "in the report's order");
        assert_eq!(campaign.groups.len(), 3, "groups without a case are not shown");
        assert_eq!(campaign.rounds, 5);
    }

    #[test]
    fn cases_that_there_are_not_are_refused_and_those_without_what_they_go_by() {
        for bad in ["", "A,", "I", "A,A", "G open-loop"] {
            let refused = campaign(&Wishes { cases: Some(bad), ..Wishes::default() }, &ROOMY);
            assert!(matches!(refused, Err(Failure::Usage(_))), "{bad:?}");
        }
    }
}
