//! How long the model takes for a virtual second of the open-channel preset with 64 reads outstanding and writes of
//! 750 MB/s, on one core; filling the device is not counted.
//!
//! `cargo run --release -p esker-flash --example speed [ROUNDS]`

use esker_base::{Clock, SystemClock};
use esker_flash::interference::{InterferenceTest, LEVELS};
use esker_flash::placement::{AllUnits, PlacementPolicy, Rotating};
use esker_flash::{Preset, ReadPriority};

fn main() {
    let rounds = std::env::args().nth(1).map_or(5, |text| text.parse().expect("a number"));
    let preset = Preset::named("cnex-mlc").expect("it is there").with_chunks_per_unit(256);
    let channel_units = preset.channel_units();
    let clock = SystemClock::new();
    for form in ReadPriority::ALL {
        let trial = InterferenceTest {
            preset: preset.clone(),
            form,
            reads: 64,
            slots: None,
            write_bytes_per_second: 750_000_000,
            fill: 0.8,
            measured_ns: 1_000_000_000,
            seed: 1,
        };
        for is_shared in [true, false] {
            let mut least = f64::MAX;
            let mut events = 0;
            let rotating = || Rotating::new(LEVELS, form != ReadPriority::HostOnly, channel_units);
            for _ in 0..rounds {
                let mut policy: Box<dyn PlacementPolicy> =
                    if is_shared { Box::new(AllUnits) } else { Box::new(rotating()) };
                let run = trial.prepare(&mut *policy);
                let begin = clock.now();
                events = run.measure().events;
                // A tenth of a second goes before the one that is measured.
                least = least.min((clock.now() - begin).as_secs_f64() / 1.1);
            }
            let (name, policy) = (form.name(), if is_shared { "shared" } else { "rotating" });
            let each = least * 1.1e9 / events as f64;
            println!(
                "{policy:>9} {name:>14}: {least:.3} s a virtual second at best, {events} events, {each:.0} ns each"
            );
        }
    }
}
