//! What reads lose next to writes under each policy, on the model: a table, and how fast the model is.
//!
//! `cargo run --release -p esker-flash --example isolation [SECONDS] [FILL] [POLICY]`

use esker_base::{Clock, SystemClock};
use esker_flash::interference::{InterferenceTest, LEVELS, Measurement};
use esker_flash::placement::{AllUnits, FixedSets, PlacementPolicy, Rotating};
use esker_flash::{Preset, ReadPriority};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise| match arguments.next() {
        Some(text) => text.parse::<f64>().expect("a number"),
        None => otherwise,
    };
    let (seconds, fill) = (number(1.0), number(0.8));
    let only = arguments.next();
    let preset = Preset::named("cnex-mlc").expect("it is there");
    let (geometry, channel_units) = (preset.geometry(), preset.channel_units());
    let clock = SystemClock::new();
    let trial = InterferenceTest {
        preset,
        form: ReadPriority::HostOnly,
        reads: 64,
        slots: None,
        write_bytes_per_second: 0,
        fill,
        measured_ns: (seconds * 1e9) as u64,
        seed: 1,
    };
    let alone = trial.run(&mut AllUnits);
    show("shared", "read-only", 0, &alone, &alone, 0.0);
    let forms = ReadPriority::ALL;
    for (rate, small) in [(187_000_000, 6), (375_000_000, 12), (750_000_000, 24)] {
        for form in forms {
            let policies: [Box<dyn PlacementPolicy>; 4] = [
                Box::new(AllUnits),
                Box::new(FixedSets::halves(&geometry)),
                Box::new(FixedSets::small_set(&geometry, small)),
                Box::new(Rotating::new(
                    LEVELS,
                    form != ReadPriority::HostOnly && form != ReadPriority::ReadsFirst,
                    channel_units,
                )),
            ];
            for mut policy in policies
                .into_iter()
                .filter(|one| only.as_deref().is_none_or(|only| one.name() == only))
            {
                let trial =
                    InterferenceTest { form, write_bytes_per_second: rate, ..trial.clone() };
                let begin = clock.now();
                let measured = trial.run(&mut *policy);
                let took = (clock.now() - begin).as_secs_f64();
                show(policy.name(), &form.name(), rate, &measured, &alone, took);
            }
        }
    }
}

fn show(
    policy: &str,
    form: &str,
    rate: u64,
    measured: &Measurement,
    alone: &Measurement,
    took: f64,
) {
    let drop = 100.0 * (1.0 - measured.reads_per_second / alone.reads_per_second);
    let micros = |part| f64::from(measured.latency(part)) / 1e3;
    println!(
        "{policy:>10} {form:>13} {:>4} MB/s: drop {drop:5.1}%  {:7.0}/s  p50 {:5.0} p99 {:6.0} p99.9 {:6.0} us  \
         die share {:4.1}%  heat {:4.2}  {}  {took:5.2} s, {} events",
        rate / 1_000_000,
        measured.reads_per_second,
        micros(0.5),
        micros(0.99),
        micros(0.999),
        measured.write_share * 100.0,
        measured.heat,
        if measured.writes_met { "met " } else { "void" },
        measured.events,
    );
}
