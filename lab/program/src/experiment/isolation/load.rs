//! What threads do with a store on a modelled device, and what it did meanwhile.

use super::SEED;
use super::device::Device;
use esker::Error;
use esker_base::{Clock, Rng};
use esker_flash::host_ftl::Activity;
use esker_flash::interference::saturated;
use esker_flash::storage::Usage;
use esker_workload::Distribution;
use esker_workload::distributions::{Latest, ScrambledZipfian, Uniform};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub(super) const VALUE_BYTES: usize = 1_100;
/// Of 64 reads outstanding at random, 16 dies are busy four fifths of the time at the most; of so many, nearly all.
pub(super) const THREADS: usize = 96;

/// Updates after records were added, as a part of these: so that levels are as updates leave them.
pub(super) const UPDATES: f64 = 0.25;
/// The part of the measured time that goes before it.
pub(super) const WARM_UP: f64 = 0.5;

/// A store under load.
pub(super) struct Load<'a> {
    device: &'a Device,
    /// How many records there are.
    records: AtomicU64,
}

/// What threads do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct MixedLoad {
    /// Puts of a hundred operations.
    pub(super) put_percent: u64,
    pub(super) keys: Keys,
}

/// Which records are read, and put.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Keys {
    /// All alike.
    Uniform,
    /// Some often, as in YCSB A to C.
    Zipfian,
    /// The newest; puts are of new ones. As in YCSB D.
    Latest,
}

impl Keys {
    fn distribution(self) -> Box<dyn Distribution> {
        match self {
            Keys::Uniform => Box::new(Uniform),
            Keys::Zipfian => Box::new(ScrambledZipfian::new()),
            Keys::Latest => Box::new(Latest::new()),
        }
    }
}

/// What came out, by the model's time.
#[derive(Clone)]
pub(super) struct Moment {
    pub(super) reads_per_second: f64,
    pub(super) puts_per_second: f64,
    /// Of reads, in nanoseconds, sorted.
    pub(super) latencies: Vec<u32>,
    /// Parts of all dies' time.
    pub(super) read_share: f64,
    pub(super) write_share: f64,
    /// Reads that went to units as long as they were written, next to uniform reads.
    pub(super) heat: f64,
    /// What was written to the medium for each byte that was written to files, since the device was made.
    pub(super) media_over_host: f64,
    /// What was written to the device for each byte of values that were put.
    pub(super) written_per_put: f64,
    /// Time on the clock over the model's.
    pub(super) dilation: f64,
}

impl Moment {
    pub(super) fn latency_us(&self, part: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        let found = self.latencies.get((last as f64 * part).round() as usize);
        found.map_or(0.0, |nanos| f64::from(*nanos) / 1e3)
    }
}

#[derive(Default)]
struct Counted {
    puts: u64,
    latencies: Vec<u32>,
}

#[derive(Default)]
struct Phase {
    /// How many records there were before it.
    there: u64,
    counts: AtomicBool,
    ends: AtomicBool,
}

impl Load<'_> {
    pub(super) fn on(device: &Device) -> Load<'_> {
        Load { device, records: AtomicU64::new(0) }
    }

    /// Adds so many records in the order of their keys, which leaves little to merge, and updates some of all there are
    /// then.
    pub(super) fn grow(&self, count: u64) -> Result<(), Error> {
        let before = self.records.fetch_add(count, Ordering::Relaxed);
        let mut rng = Rng::new(SEED + before);
        let mut numbers: Vec<u64> = (before..before + count).collect();
        numbers.sort_by_key(|number| key(*number));
        for number in numbers {
            self.put(number, &mut rng)?;
        }
        for _ in 0..(count as f64 * UPDATES) as u64 {
            let number = rng.below(before + count);
            self.put(number, &mut rng)?;
        }
        Ok(())
    }

    fn put(&self, number: u64, rng: &mut Rng) -> Result<(), Error> {
        let mut value = [0; VALUE_BYTES];
        rng.fill(&mut value);
        self.device.store().put(&key(number), &value)
    }

    /// Lets threads read and put for so many seconds of the model, once compactions have ended.
    pub(super) fn run(&self, mix: MixedLoad, seconds: f64) -> Result<Moment, Error> {
        self.device.settle()?;
        self.device.host.set_timeless(false);
        let phase = Phase { there: self.records.load(Ordering::Relaxed), ..Phase::default() };
        let (mut counted, mut around) = (Vec::new(), None);
        std::thread::scope(|scope| {
            let phase = &phase;
            let thread = |number| scope.spawn(move || self.work(number, mix, phase));
            let threads: Vec<_> = (0..THREADS as u64).map(thread).collect();
            self.device.host.sleep(Duration::from_secs_f64(seconds * WARM_UP));
            phase.counts.store(true, Ordering::Relaxed);
            let before = self.look();
            self.device.host.sleep(Duration::from_secs_f64(seconds));
            phase.counts.store(false, Ordering::Relaxed);
            around = Some((before, self.look()));
            phase.ends.store(true, Ordering::Relaxed);
            counted.extend(threads.into_iter().map(|thread| thread.join().expect("it ended")));
        });
        let counted = counted.into_iter().collect::<Result<Vec<Counted>, Error>>()?;
        let (before, after) = around.expect("it was looked at");
        Ok(moment(&before, &after, counted))
    }

    fn work(&self, number: u64, mix: MixedLoad, phase: &Phase) -> Result<Counted, Error> {
        let mut rng = Rng::new(SEED + 1 + number + (mix.put_percent << 32));
        let mut keys = mix.keys.distribution();
        let mut counted = Counted::default();
        while !phase.ends.load(Ordering::Relaxed) {
            let record = keys.next(&mut rng, self.records.load(Ordering::Relaxed));
            let counts = phase.counts.load(Ordering::Relaxed);
            if rng.below(100) < mix.put_percent {
                let record = match mix.keys {
                    Keys::Latest => self.records.fetch_add(1, Ordering::Relaxed),
                    _ => record,
                };
                self.put(record, &mut rng)?;
                counted.puts += u64::from(counts);
                continue;
            }
            let begin = self.device.host.now();
            let found = self.device.store().get(&key(record))?;
            // A new one may be on its way.
            let is_there = found.is_some_and(|value| value.len() == VALUE_BYTES);
            assert!(is_there || record >= phase.there, "{record} is there");
            if counts {
                let latency = self.device.host.now() - begin;
                counted.latencies.push(saturated(latency.as_nanos()));
            }
        }
        Ok(counted)
    }

    fn look(&self) -> Look {
        let Device { host, clock, .. } = self.device;
        Look { activity: host.activity(), usage: self.device.usage(), real: clock.now() }
    }
}

struct Look {
    activity: Activity,
    usage: Usage,
    real: Duration,
}

/// Spread over the key space in no order.
fn key(number: u64) -> [u8; 16] {
    u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes()
}

fn moment(before: &Look, after: &Look, counted: Vec<Counted>) -> Moment {
    let (from, to) = (&before.activity, &after.activity);
    let passed_ns = (to.at - from.at) as f64;
    let grown = |from: &[u64], to: &[u64]| -> Vec<f64> {
        from.iter().zip(to).map(|(from, to)| (to - from) as f64).collect()
    };
    let sum = |all: &[f64]| all.iter().sum::<f64>();
    let dies = from.reads.len() as f64;
    let (read_ns, write_ns) =
        (grown(&from.read_ns, &to.read_ns), grown(&from.write_ns, &to.write_ns));
    let reads = grown(&from.reads, &to.reads);
    let met: f64 = write_ns.iter().zip(&reads).map(|(write, reads)| write * reads).sum();
    let host_bytes = |usage: &Usage| usage.host_bytes + usage.padding_bytes;
    let host_bytes = (host_bytes(&after.usage) - host_bytes(&before.usage)) as f64;
    let puts = counted.iter().map(|one| one.puts).sum::<u64>();
    let mut latencies: Vec<u32> = counted.into_iter().flat_map(|one| one.latencies).collect();
    latencies.sort_unstable();
    Moment {
        reads_per_second: latencies.len() as f64 * 1e9 / passed_ns,
        puts_per_second: puts as f64 * 1e9 / passed_ns,
        latencies,
        read_share: sum(&read_ns) / passed_ns / dies,
        write_share: sum(&write_ns) / passed_ns / dies,
        heat: met * dies / (sum(&write_ns) * sum(&reads)).max(1.0),
        media_over_host: after.usage.media_over_host(),
        written_per_put: host_bytes / (puts * VALUE_BYTES as u64).max(1) as f64,
        dilation: (after.real - before.real).as_nanos() as f64 / passed_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::super::device::policies;
    use super::*;
    use esker_flash::ReadPriority;

    #[test]
    fn what_one_load_left_to_compact_is_not_done_beside_the_next() {
        let [shared, ..] = policies(ReadPriority::HostOnly);
        let device = Device::with_esker(ReadPriority::HostOnly, shared).unwrap();
        let load = Load::on(&device);
        load.grow(5_000).unwrap();
        // Some MB more, in no order.
        let mut rng = Rng::new(1);
        (0..5_000).for_each(|_| load.put(rng.below(5_000), &mut rng).unwrap());
        let moment = load.run(MixedLoad { put_percent: 0, keys: Keys::Uniform }, 0.05).unwrap();
        assert_eq!(moment.write_share, 0.0, "nobody puts, and nothing is left to merge");
    }
}
