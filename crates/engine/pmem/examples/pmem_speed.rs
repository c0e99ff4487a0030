//! Prints what it costs on this machine to make bytes durable, in nanoseconds each.
//!
//! `cargo run --release -p esker-pmem --example pmem_speed [PATH]`
//!
//! PATH is where the pool is made and removed again: `/dev/shm/esker-pmem-speed` if not given, which is
//! DRAM and so an emulation. The ways take turns, so that what disturbs one disturbs all; a cell is the
//! median of the rounds, and the ratio is the median of the rounds' ratios to the first column.

use esker_base::{Clock, Result, SystemClock};
use esker_pmem::{Accept, Domain, Extent, Flush, MappedRegion, Persist, Pool, Region, Stream};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

const POOL_BYTES: u64 = 1 << 30;
const ROUNDS: usize = 31;
/// Bytes written in a round, so that each round meets lines that the caches do not have.
const ROUND_BYTES: usize = 16 << 20;
const SIZES: [usize; 9] = [64, 128, 192, 256, 384, 512, 1024, 4096, 16384];

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or("/dev/shm/esker-pmem-speed".to_owned());
    let path = Path::new(&path);
    let measured = ways(path);
    let _ = std::fs::remove_file(path);
    let measured = measured.and_then(|()| frames(path));
    let _ = std::fs::remove_file(path);
    measured
}

/// Runs all `ways` in turns; gives for each the times of its rounds, in nanoseconds a piece.
fn in_turns(pieces: usize, ways: &mut [Box<dyn FnMut(usize) + '_>]) -> Vec<Vec<f64>> {
    let clock = SystemClock::new();
    let mut times = vec![Vec::new(); ways.len()];
    for round in 0..ROUNDS {
        for turn in 0..ways.len() {
            let number = (turn + round) % ways.len();
            let start = clock.now();
            for piece in 0..pieces {
                ways[number](piece);
            }
            times[number].push((clock.now() - start).as_nanos() as f64 / pieces as f64);
        }
    }
    times
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn print_row(what: &str, times: &[Vec<f64>]) {
    print!("{what:>8}");
    for of in times {
        let ratios = of.iter().zip(&times[0]).map(|(time, first)| time / first).collect();
        print!("  {:8.1} ({:4.2})", median(of.clone()), median(ratios));
    }
    println!();
}

/// The instructions, without anything around them.
fn ways(path: &Path) -> Result<()> {
    let region = MappedRegion::create(path, POOL_BYTES, Accept::Emulated)?;
    println!("{}: {}", path.display(), region.domain());
    println!("detected: {}", Persist::detect(region.domain() == Domain::Eadr).describe());
    // SAFETY: nobody else has the region.
    unsafe { region.fault_in(0, region.len()) }.expect("the region has all its blocks");
    let streams =
        Stream::ALL.map(|stream| (stream.to_string(), Persist::of(stream, Flush::detect(), 64)));
    let flushes = Flush::ALL
        .map(|flush| (format!("copy, {flush}"), Persist::of(Stream::detect(), flush, usize::MAX)));
    let ways: Vec<(String, Persist)> =
        streams.into_iter().chain(flushes).filter_map(|(name, way)| Some((name, way?))).collect();
    println!("\nns to write a piece of whole lines and fence it (ratio to the first)");
    print!("{:>8}", "bytes");
    ways.iter().for_each(|(name, _)| {
        print!("  {:>15}", name.replace("streaming ", "").replace(" stores", ""))
    });
    println!("  {:>15}", "copy only");
    let source = vec![0xa5; 1 << 20];
    for bytes in SIZES {
        let pieces = ROUND_BYTES / bytes;
        let mut turns: Vec<Box<dyn FnMut(usize)>> = Vec::new();
        for (number, (_, way)) in ways.iter().enumerate() {
            let (base, source) = (region.base().wrapping_add(number * ROUND_BYTES), &source);
            turns.push(Box::new(move |piece| {
                let from = &source[piece * 8 % 65536..][..bytes];
                // SAFETY: each way has a part of the region of its own.
                unsafe { way.write(base.add(piece * bytes), black_box(from)) };
                way.fence();
            }));
        }
        let (base, source) = (region.base().wrapping_add(ways.len() * ROUND_BYTES), &source);
        turns.push(Box::new(move |piece| {
            let from = &source[piece * 8 % 65536..][..bytes];
            // SAFETY: as above.
            unsafe {
                base.add(piece * bytes).copy_from_nonoverlapping(black_box(from).as_ptr(), bytes)
            };
        }));
        print_row(&bytes.to_string(), &in_turns(pieces, &mut turns));
    }
    Ok(())
}

/// A pool whose frames are streamed from `stream_from` bytes on, with one extent acquired.
fn extent(path: &Path, stream_from: usize) -> Result<Extent> {
    let _ = std::fs::remove_file(path);
    let mut region = MappedRegion::create(path, POOL_BYTES, Accept::Emulated)?;
    let ways = Persist::of(Stream::detect(), Flush::detect(), stream_from);
    region.set_ways(ways.expect("what is detected is available"));
    let pool = Pool::format(Arc::new(region), &path.display().to_string(), 1)?;
    Ok(pool.acquire(1, &[0; 64])?.expect("the pool is empty"))
}

/// Frames through an extent: the way an engine writes them.
fn frames(path: &Path) -> Result<()> {
    // The name may go while the memory is in use.
    let streamed = [extent(path, 0)?, extent(path, 0)?];
    let copied = [extent(path, usize::MAX)?, extent(path, usize::MAX)?];
    let plain = extent(path, 0)?;
    println!(
        "\nns to write a frame into an extent, its header of 32 B included (ratio to the first)"
    );
    let columns = ["stream, fence", "copy, fence", "stream, every 8", "copy, every 8", "copy only"];
    println!("{:>8}  {}", "entries", columns.map(|column| format!("{column:>15}")).join("  "));
    let header = [7; 32];
    let source = vec![0xa5; 1 << 20];
    for bytes in [20, 96, 122, 160, 224, 352, 480, 1050, 4100] {
        let whole = (header.len() + bytes).next_multiple_of(64);
        let pieces = ROUND_BYTES / whole;
        let from = |piece: usize| black_box(&source[piece * 8 % 65536..][..bytes]);
        let write = |extent: &Extent, piece: usize, fence: bool| {
            // SAFETY: each frame has a place of its own.
            let frame =
                unsafe { extent.write_frame(64 + piece * whole, &header, from(piece), whole) };
            match fence {
                true => drop(black_box(frame.fence())),
                false => std::mem::forget(frame),
            }
        };
        let mut turns: Vec<Box<dyn FnMut(usize)>> = vec![
            Box::new(|piece| write(&streamed[0], piece, true)),
            Box::new(|piece| write(&copied[0], piece, true)),
            Box::new(|piece| write(&streamed[1], piece, piece % 8 == 7)),
            Box::new(|piece| write(&copied[1], piece, piece % 8 == 7)),
            Box::new(|piece| {
                // SAFETY: as above.
                unsafe {
                    let to = plain.pointer().add(64 + piece * whole);
                    to.copy_from_nonoverlapping(black_box(&header).as_ptr(), header.len());
                    let body = to.add(header.len());
                    body.copy_from_nonoverlapping(from(piece).as_ptr(), bytes);
                    body.add(bytes).write_bytes(0, whole - header.len() - bytes);
                }
            }),
        ];
        print_row(&bytes.to_string(), &in_turns(pieces, &mut turns));
    }
    Ok(())
}
