//! Sequential reads and writes in one closed loop on the model of a 960 Pro, as shares of the pure rates.
//!
//! `cargo run --release -p esker-flash --example mix`

use esker_flash::Preset;
use esker_flash::interference::MixedLoad;

fn main() {
    let preset = Preset::named("samsung-960-pro").expect("it is there");
    for depth in [1, 2, 4, 6, 8, 12, 16, 24, 32, 64] {
        let mix = MixedLoad {
            preset: preset.clone(),
            depth,
            read_share: 1.0,
            measured_ns: 500_000_000,
            seed: 1,
        };
        let read = mix.run().read;
        let written = MixedLoad { read_share: 0.0, ..mix.clone() }.run().written;
        print!("depth {depth:3}: pure {:5.0} / {:5.0} MB/s;", read / 1e6, written / 1e6);
        for read_share in [0.1, 0.25, 0.5, 0.75, 0.9] {
            let mixed = MixedLoad { read_share, ..mix.clone() }.run();
            let (reads, writes) = (mixed.read / read * 100.0, mixed.written / written * 100.0);
            print!("  {read_share}: {reads:4.1} / {writes:4.1}%");
        }
        println!();
    }
}
