use super::*;
use crate::chunk_device::SimulatedDevice;
use crate::placement::WriteDispatch;
use crate::{ChunkDevice, FlashStorage};
use esker_base::{Clock, SystemClock, Threads, WriteHint};
use esker_storage::Storage;
use std::sync::atomic::{AtomicU64, Ordering};

fn preset() -> Preset {
    Preset::named("cnex-mlc").unwrap().with_chunks_per_unit(4)
}

fn first() -> Chunk {
    preset().geometry().chunk(0)
}

/// Long enough that the first write units can be read from the medium.
fn written(host: &HostFtl) -> u32 {
    let units = host.geometry().mw_cunits + 2;
    host.write(first(), units);
    units
}

#[test]
fn a_read_takes_as_long_as_the_model_says_and_time_stands_otherwise() {
    let host =
        HostFtl::in_virtual_time(&preset(), ReadPriority::HostOnly, WriteDispatch::AtOnce, 3);
    host.set_timeless(true);
    written(&host);
    host.set_timeless(false);
    assert_eq!(host.now(), Duration::ZERO);
    host.read(first(), [(0, 0..4096)].into_iter()).unwrap();
    // Firmware, a lower page, 4 KiB at 280 MB/s and at 6.4 GB/s.
    assert_eq!(host.now().as_nanos(), 1_900 + 48_000 + 14_629 + 640);
    assert_eq!(host.activity().read_ns[0], 48_000 + 14_629);
}

#[test]
fn what_is_in_the_buffer_is_read_without_the_device() {
    let host =
        HostFtl::in_virtual_time(&preset(), ReadPriority::HostOnly, WriteDispatch::AtOnce, 3);
    let units = written(&host);
    host.read(first(), [(units - 1, 0..65_536)].into_iter()).unwrap();
    assert_eq!((host.now(), host.activity().reads[0]), (Duration::ZERO, 0));
}

#[test]
fn a_write_waits_when_the_buffer_is_full() {
    let host =
        HostFtl::in_virtual_time(&preset(), ReadPriority::HostOnly, WriteDispatch::AtOnce, 3);
    let geometry = host.geometry();
    let room = geometry.mw_cunits as usize * geometry.units();
    let per_chunk = geometry.write_units() as usize;
    for number in 0..room.div_ceil(per_chunk) {
        host.write(geometry.chunk(number), per_chunk.min(room - number * per_chunk) as u32);
    }
    assert_eq!((host.now(), host.buffer_fill()), (Duration::ZERO, 1.0));
    let last = geometry.chunk(geometry.chunks() - 1);
    host.write(last, 1);
    // One program at least was done meanwhile.
    assert!(host.now() >= Duration::from_micros(850) && host.activity().programs >= 1);
}

#[test]
fn a_writer_is_held_back_while_reads_wait_behind_writes_and_not_for_ever() {
    let host =
        HostFtl::in_virtual_time(&preset(), ReadPriority::HostOnly, WriteDispatch::AtOnce, 3);
    host.set_timeless(true);
    written(&host);
    host.set_timeless(false);
    host.sleep(Duration::from_millis(20));
    let mut state = host.shared.lock();
    let now = state.sim.now();
    state.write(first());
    for _ in 0..host.geometry().units() {
        let ticket = state.ticket();
        state.read(first(), 0, 0..4096, ticket).unwrap();
    }
    assert!(state.admits(now), "no policy holds anybody back");
    state.admission = Some(WriteAdmission::default());
    assert!(!state.admits(now));
    assert!(state.admits(now - 5_000_000));
}

#[test]
fn a_chunk_is_written_again_behind_its_reset() {
    let host =
        HostFtl::in_virtual_time(&preset(), ReadPriority::HostOnly, WriteDispatch::AtOnce, 3);
    let units = written(&host);
    assert!(host.reset(first()));
    assert_eq!(written(&host), units);
    // What was there before is programmed by then, and nothing of what is there now.
    host.sleep(Duration::from_millis(15));
    assert_eq!(host.activity().programs, u64::from(units));
    host.read(first(), [(0, 0..4096)].into_iter()).unwrap();
    assert_eq!(host.activity().reads[0], 0, "it is in the buffer");
    host.sleep(Duration::from_secs(1));
    let activity = host.activity();
    assert_eq!(activity.programs, 2 * u64::from(units));
    host.read(first(), [(0, 0..4096)].into_iter()).unwrap();
    assert_eq!(host.activity().reads[0], 1);
}

/// They acknowledge a write when it is in their buffer, and reset no chunk before it is programmed.
#[test]
fn devices_with_a_buffer_of_their_own_reset_a_chunk_that_was_just_written() {
    for name in ["samsung-960-pro", "samsung-970-pro", "wd-zn540"] {
        let preset = Preset::named(name).unwrap().with_chunks_per_unit(4);
        for sending in [WriteDispatch::AtOnce, WriteDispatch::ReadsFirst, WriteDispatch::InTurns] {
            let host = HostFtl::in_virtual_time(&preset, ReadPriority::HostOnly, sending, 3);
            let geometry = host.geometry();
            let is_good = |index: &usize| !host.is_bad(geometry.chunk(*index));
            let chunk = geometry.chunk((0..geometry.chunks()).find(is_good).unwrap());
            for round in 1..=3 {
                host.write(chunk, 2);
                assert!(host.reset(chunk), "{name}");
                host.write(chunk, 1);
                host.sleep(Duration::from_secs(1));
                assert_eq!(host.activity().programs, 3 * round, "{name}, {sending:?}");
                host.read(chunk, [(0, 0..4096)].into_iter()).unwrap();
                assert!(host.reset(chunk), "{name}");
            }
            host.write(chunk, 1);
            host.set_timeless(true);
            assert!(host.reset(chunk), "{name}");
        }
    }
}

#[test]
fn files_on_the_model_take_its_time() {
    let run = || {
        let host = Arc::new(HostFtl::in_virtual_time(
            &preset(),
            ReadPriority::HostOnly,
            WriteDispatch::AtOnce,
            3,
        ));
        let zones: Arc<dyn ChunkDevice> = Arc::new(SimulatedDevice::new(host.clone()));
        let storage = FlashStorage::open(zones).unwrap();
        let mut file = storage.create("a", WriteHint::table(4)).unwrap();
        let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at / 7) as u8).collect();
        file.append(&bytes).unwrap();
        file.sync().unwrap();
        host.sleep(Duration::from_millis(100));
        let mut found = vec![0; 1_000_000];
        storage.open("a").unwrap().read_exact_at(1_234, &mut found).unwrap();
        assert!(found == bytes[1_234..1_001_234]);
        host.activity()
    };
    let activity = run();
    assert!(activity.at > 100_000_000 && activity.reads.iter().sum::<u64>() >= 15);
    assert_eq!(run(), activity, "virtual time is the same each time");
}

/// A clock that goes on by a millisecond at each look.
#[derive(Default)]
struct Hurried(AtomicU64);

impl Clock for Hurried {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::SeqCst))
    }
    fn sleep(&self, _: Duration) {
        std::thread::yield_now();
    }
}

fn paced(clock: Arc<dyn Clock>, dilation: f64) -> Arc<HostFtl> {
    let pace = DilatedClock { clock, dilation, background: Arc::new(Threads) };
    let host =
        HostFtl::paced(&preset(), ReadPriority::HostOnly, WriteDispatch::AtOnce, 3, pace).unwrap();
    host.set_timeless(true);
    written(&host);
    host.set_timeless(false);
    Arc::new(host)
}

#[test]
fn a_paced_model_is_never_ahead_of_its_clock() {
    let clock = Arc::new(SystemClock::new());
    let host = paced(clock.clone(), 4.0);
    let real = clock.now();
    let begin = host.now();
    for _ in 0..20 {
        host.read(first(), [(0, 0..4096)].into_iter()).unwrap();
    }
    let passed = host.now() - begin;
    assert!(passed >= Duration::from_nanos(20 * 65_169), "{passed:?}");
    assert!(passed * 4 <= clock.now() - real + Duration::from_micros(1), "{passed:?}");
}

#[test]
fn time_stands_until_a_thread_that_was_answered_comes_back() {
    let host = paced(Arc::new(Hurried::default()), 1.0);
    let at = || host.shared.lock().sim.now();
    host.read(first(), [(0, 0..4096)].into_iter()).unwrap();
    let answered = at();
    // Half of the looks that a thread may be away for.
    (0..50).for_each(|_| _ = at());
    assert!(at() - answered <= 10_000);
    host.read(first(), [(0, 0..4096)].into_iter()).unwrap();
    let again = at() - answered;
    assert!((65_169..100_000).contains(&again), "{again}");
}

#[test]
fn a_thread_that_stays_away_is_not_waited_for() {
    let host = paced(Arc::new(Hurried::default()), 1.0);
    host.read(first(), [(0, 0..4096)].into_iter()).unwrap();
    let answered = host.now();
    (0..200).for_each(|_| _ = host.now());
    assert!(host.now() - answered >= Duration::from_millis(50));
}

#[test]
fn a_thread_that_comes_back_with_a_write_or_a_reset_is_back() {
    let host = paced(Arc::new(Hurried::default()), 1.0);
    let is_away = || host.shared.state.lock().oldest_answer(Duration::ZERO).is_some();
    let geometry = host.geometry();
    let comes: [&dyn Fn(); 2] =
        [&|| host.write(geometry.chunk(1), 1), &|| _ = host.reset(geometry.chunk(2))];
    for come in comes {
        host.read(first(), [(0, 0..4096)].into_iter()).unwrap();
        assert!(is_away());
        come();
        assert!(!is_away());
    }
}

/// How many units are being written a millisecond after each was given so many write units.
fn units_written(sending: WriteDispatch, write_units: u32) -> usize {
    let host = HostFtl::in_virtual_time(&preset(), ReadPriority::HostOnly, sending, 3);
    for unit in host.geometry().all_units() {
        let chunks = (0..4).map(|number| Chunk { unit, number });
        let good = chunks.into_iter().find(|chunk| !host.is_bad(*chunk));
        host.write(good.expect("one is"), write_units);
    }
    host.sleep(Duration::from_millis(1));
    host.activity().write_ns.iter().filter(|busy| **busy > 0).count()
}

#[test]
fn in_turns_few_units_are_written_at_a_time_and_more_if_more_waits() {
    let at_once = units_written(WriteDispatch::AtOnce, 1);
    let few = units_written(WriteDispatch::InTurns, 1);
    let more = units_written(WriteDispatch::InTurns, 8);
    assert!(at_once > 64, "{at_once}");
    assert!((3..=10).contains(&few), "{few}");
    assert!((20..=66).contains(&more), "{more}");
}

#[test]
fn what_is_sent_in_turns_is_all_written() {
    let host =
        HostFtl::in_virtual_time(&preset(), ReadPriority::HostOnly, WriteDispatch::InTurns, 3);
    let write_units = host.geometry().write_units();
    host.write(first(), write_units);
    host.reset(first());
    host.set_timeless(true);
    assert_eq!(host.activity().programs, u64::from(write_units));
}

#[test]
fn resets_that_are_not_done_yet_wear_a_chunk() {
    let host =
        HostFtl::in_virtual_time(&preset(), ReadPriority::HostOnly, WriteDispatch::AtOnce, 3);
    host.set_timeless(true);
    (1..preset().endurance_erases()).for_each(|_| assert!(host.reset(first())));
    host.set_timeless(false);
    let done = [host.reset(first()), host.reset(first())];
    assert_eq!(done, [true, false]);
    assert!(host.is_bad(first()));
}

/// Whether a device is busy, as an engine asks by way of the storage that it has its files in, when so many reads and
/// writes of a write unit are in progress.
fn is_busy(reads: usize, writes: usize) -> bool {
    let host = Arc::new(HostFtl::in_virtual_time(
        &preset(),
        ReadPriority::HostOnly,
        WriteDispatch::AtOnce,
        3,
    ));
    let storage = FlashStorage::open(Arc::new(SimulatedDevice::new(host.clone()))).unwrap();
    let [read, write] = [1, 2].map(|number| host.geometry().chunk(number * 4));
    host.set_timeless(true);
    host.write(read, host.geometry().mw_cunits + 2);
    host.set_timeless(false);
    let mut state = host.shared.lock();
    for _ in 0..reads {
        let ticket = state.ticket();
        state.read(read, 0, 0..4096, ticket).unwrap();
    }
    (0..writes).for_each(|_| state.write(write));
    drop(state);
    storage.is_busy()
}

#[test]
fn a_device_is_busy_while_reads_keep_half_of_it_and_writes_an_eighth() {
    let units = preset().geometry().units();
    assert!(is_busy(units / 2, units / 8 + 1));
    assert!(!is_busy(units / 2 - 1, units / 8 + 1), "fewer read");
    assert!(!is_busy(units / 2, units / 8), "fewer write");
}
