//! Compares the model with results calculated by hand.

mod planes;

use super::*;

/// Round numbers: a read senses for 50 us, moves 4 KiB in 16.384 us and sends them in 4.096 us; a write
/// unit of 64 KiB takes 65.536 us from the host, four pieces of 65.536 us, and 1 ms.
fn preset() -> Preset {
    let mut preset = Preset::named("cnex-mlc").unwrap().with_chunks_per_unit(16);
    preset.timing.read_ns.value = vec![50_000];
    preset.timing.program_ns.value = vec![1_000_000];
    preset.timing.erase_ns.value = 3_000_000;
    preset.bus.bytes_per_second.value = 250_000_000;
    preset.host.bytes_per_second.value = 1_000_000_000;
    preset.host.read_firmware_ns.value = 2_000;
    preset.host.write_firmware_ns.value = 3_000;
    preset
}

const SENSE: u64 = 50_000;
const OUT: u64 = 16_384;
const SEND: u64 = 4_096;
const TAKE: u64 = 65_536;
const IN: u64 = 4 * 65_536;
const PROGRAM: u64 = 1_000_000;

/// The `n`th good chunk of a unit.
fn good(sim: &Sim, unit: u16, n: usize) -> Chunk {
    let chunks = (0..16).map(|number| Chunk { unit: Unit(unit), number });
    chunks.filter(|chunk| !sim.media.is_bad(*chunk)).nth(n).unwrap()
}

/// A device whose first good chunk of every unit is full.
fn filled(preset: &Preset, form: ReadPriority) -> Sim {
    let mut sim = Sim::new(preset, form, 1);
    for unit in 0..128 {
        let chunk = good(&sim, unit, 0);
        sim.media.fill(chunk).unwrap();
    }
    sim
}

fn read(sim: &mut Sim, unit: u16) {
    let chunk = good(sim, unit, 0);
    sim.read(chunk, 0, 0..4_096, u32::from(unit)).unwrap();
}

fn write(sim: &mut Sim, unit: u16) {
    let chunk = good(sim, unit, 1);
    let number = sim.media.written(chunk);
    sim.write(chunk, number, 1_000 + u32::from(unit)).unwrap();
}

/// The points in time of all completions.
fn ends(sim: &mut Sim) -> Vec<(u64, Kind)> {
    std::iter::from_fn(|| sim.next_completion()).map(|done| (done.at, done.kind)).collect()
}

#[test]
fn a_read_takes_firmware_sense_channel_and_host() {
    let mut sim = filled(&preset(), ReadPriority::HostOnly);
    read(&mut sim, 5);
    assert_eq!(ends(&mut sim), [(2_000 + SENSE + OUT + SEND, Kind::Read)]);
}

#[test]
fn one_die_reads_one_page_after_the_other() {
    let mut sim = filled(&preset(), ReadPriority::HostOnly);
    (0..10).for_each(|_| read(&mut sim, 5));
    let last = ends(&mut sim).pop().unwrap();
    assert_eq!(last.0, 2_000 + 10 * (SENSE + OUT) + SEND);
}

#[test]
fn dies_of_a_channel_sense_together_and_share_its_bus() {
    let mut sim = filled(&preset(), ReadPriority::HostOnly);
    (0..8).for_each(|unit| read(&mut sim, unit));
    let ends: Vec<u64> = ends(&mut sim).into_iter().map(|(at, _)| at).collect();
    let expected = (1..=8).map(|n| 2_000 + SENSE + n * OUT + SEND);
    assert_eq!(ends, expected.collect::<Vec<_>>());
}

#[test]
fn a_saturated_bus_moves_its_bandwidth() {
    let mut sim = filled(&preset(), ReadPriority::HostOnly);
    for _ in 0..100 {
        (0..8).for_each(|unit| read(&mut sim, unit));
    }
    let last = ends(&mut sim).pop().unwrap().0;
    // 8 dies offer a page each 66 us and the bus takes one each 16 us: it never waits after the first.
    assert_eq!(last, 2_000 + SENSE + 800 * OUT + SEND);
    assert_eq!(sim.bus_busy_ns(0), 800 * OUT);
}

#[test]
fn channels_do_not_wait_for_each_other_but_for_the_host() {
    let mut sim = filled(&preset(), ReadPriority::HostOnly);
    (0..16).for_each(|group| read(&mut sim, group * 8));
    let last = ends(&mut sim).pop().unwrap();
    assert_eq!(last.0, 2_000 + SENSE + OUT + 16 * SEND);
}

#[test]
fn programs_of_one_die_come_at_its_rate() {
    let mut sim = filled(&preset(), ReadPriority::HostOnly);
    (0..10).for_each(|_| write(&mut sim, 5));
    let ends = ends(&mut sim);
    let first = TAKE + 3_000;
    let expected = (1..=10).map(|n| (first + n * (IN + PROGRAM), Kind::Write));
    assert_eq!(ends, expected.collect::<Vec<_>>());
    assert_eq!(sim.write_ns(Unit(5)), 10 * (IN + PROGRAM));
}

#[test]
fn programs_of_all_dies_run_beside_each_other() {
    let mut sim = filled(&preset(), ReadPriority::HostOnly);
    (0..16).for_each(|group| write(&mut sim, group * 8));
    let last = ends(&mut sim).pop().unwrap();
    assert_eq!(last.0, 16 * TAKE + 3_000 + IN + PROGRAM);
}

#[test]
fn a_read_behind_a_program_waits_for_its_end() {
    let mut sim = filled(&preset(), ReadPriority::HostOnly);
    write(&mut sim, 5);
    let begin = TAKE + 3_000;
    sim.alarm(begin + IN + 100_000, 0);
    assert_eq!(sim.next_completion().unwrap().kind, Kind::Alarm);
    read(&mut sim, 5);
    let programmed = begin + IN + PROGRAM;
    let expected = [(programmed, Kind::Write), (programmed + SENSE + OUT + SEND, Kind::Read)];
    assert_eq!(ends(&mut sim), expected);
}

#[test]
fn a_program_gives_way_and_pays_for_stopping_and_going_on() {
    let mut sim = filled(&preset(), ReadPriority::Suspend(15_000));
    write(&mut sim, 5);
    let begin = TAKE + 3_000;
    sim.alarm(begin + IN + 100_000, 0);
    sim.next_completion().unwrap();
    read(&mut sim, 5);
    let arrived = begin + IN + 100_000 + 2_000;
    let read = arrived + 15_000 + SENSE + OUT;
    let programmed = read + 15_000 + PROGRAM - 102_000;
    assert_eq!(ends(&mut sim), [(read + SEND, Kind::Read), (programmed, Kind::Write)]);
}

#[test]
fn a_program_gives_way_only_so_often() {
    let mut sim = filled(&preset(), ReadPriority::Suspend(1_000));
    write(&mut sim, 5);
    let begin = TAKE + 3_000 + IN;
    // A read each 20 us after the last one's end: without a limit the program would go on for long.
    sim.alarm(begin + 20_000, 0);
    let mut reads = 0;
    loop {
        let done = sim.next_completion().unwrap();
        match done.kind {
            Kind::Alarm => read(&mut sim, 5),
            Kind::Read => {
                reads += 1;
                sim.alarm(done.at + 20_000, 0);
            }
            Kind::Write => break,
            Kind::Reset => unreachable!(),
        }
    }
    assert_eq!(reads, u32::from(read_priority::SUSPENDS_MOST));
}

#[test]
fn a_write_that_is_late_goes_before_reads() {
    let mut sim = filled(&preset(), ReadPriority::ReadsFirst);
    (0..2).for_each(|_| read(&mut sim, 5));
    write(&mut sim, 5);
    let mut last = 0;
    while let Some(done) = sim.next_completion() {
        last = done.at;
        match done.kind {
            Kind::Write => break,
            // Two reads are there at any time, so the die has always one to do first.
            _ => read(&mut sim, 5),
        }
    }
    let most = read_priority::WRITE_DEADLINE_NS + SENSE + OUT + IN + PROGRAM;
    assert!(last > read_priority::WRITE_DEADLINE_NS && last <= most, "{last}");
}

#[test]
fn an_erase_keeps_its_die_busy() {
    let mut sim = filled(&preset(), ReadPriority::HostOnly);
    let chunk = good(&sim, 5, 1);
    sim.reset(chunk, 0).unwrap();
    read(&mut sim, 5);
    let erased = 3_000_000;
    let expected = [(erased, Kind::Reset), (erased + SENSE + OUT + SEND, Kind::Read)];
    assert_eq!(ends(&mut sim), expected);
    assert_eq!(sim.media.erases(chunk), 1);
}

#[test]
fn a_full_buffer_takes_a_write_when_a_program_is_done() {
    let mut preset = preset();
    preset.buffer.bytes.value = 2 * 65_536;
    let mut sim = filled(&preset, ReadPriority::HostOnly);
    (0..4).for_each(|_| write(&mut sim, 5));
    let begin = TAKE + 3_000;
    let programmed = |n: u64| begin + n * (IN + PROGRAM);
    let expected = [begin, 2 * TAKE + 3_000, programmed(1) + begin, programmed(2) + begin];
    let ends: Vec<u64> = ends(&mut sim).into_iter().map(|(at, _)| at).collect();
    assert_eq!(ends, expected);
}

#[test]
fn what_is_in_the_buffer_is_read_without_the_die() {
    let mut sim = filled(&preset(), ReadPriority::HostOnly);
    write(&mut sim, 5);
    let chunk = good(&sim, 5, 1);
    sim.read(chunk, 0, 0..4_096, 0).unwrap();
    assert_eq!(ends(&mut sim)[0], (2_000 + SEND, Kind::Read));
}

#[test]
fn what_power_cuts_short_is_lost_and_the_device_goes_on() {
    let mut sim = filled(&preset(), ReadPriority::Suspend(15_000));
    write(&mut sim, 5);
    write(&mut sim, 5);
    write(&mut sim, 9);
    sim.alarm(TAKE * 3 + IN + 500_000, 0);
    sim.next_completion().unwrap();
    sim.power_cut();
    assert!(ends(&mut sim).is_empty());
    for (unit, written) in [(5, 1), (9, 1)] {
        let chunk = good(&sim, unit, 1);
        assert_eq!(sim.media.written(chunk), written, "the second was in the buffer");
        assert!(matches!(sim.media.read(chunk, 0), Err(MediaError::Lost { .. })));
    }
    write(&mut sim, 5);
    assert_eq!(ends(&mut sim).len(), 1);
}

/// All completions of a mixed load.
fn history(form: ReadPriority, seed: u64) -> (Vec<Completion>, u64) {
    let mut sim = filled(&Preset::named("cnex-mlc").unwrap().with_chunks_per_unit(16), form);
    let mut rng = esker_base::Rng::new(seed);
    (0..64).for_each(|_| read(&mut sim, rng.below(128) as u16));
    (0..20).for_each(|_| write(&mut sim, rng.below(128) as u16));
    let mut all = Vec::new();
    while all.len() < 20_000 {
        let done = sim.next_completion().unwrap();
        all.push(done);
        match done.kind {
            Kind::Read => read(&mut sim, rng.below(128) as u16),
            _ => write(&mut sim, rng.below(128) as u16),
        }
    }
    (all, sim.events())
}

#[test]
fn equal_runs_are_equal_to_the_event() {
    for form in [ReadPriority::HostOnly, ReadPriority::ReadsFirst, ReadPriority::Suspend(15_000)] {
        assert_eq!(history(form, 3), history(form, 3));
        assert_ne!(history(form, 3), history(form, 4));
    }
}

#[test]
fn a_chunk_that_is_written_is_not_reset_before_it_is_programmed() {
    let preset = Preset::named("cnex-mlc").unwrap().with_chunks_per_unit(4);
    let mut sim = Sim::new(&preset, ReadPriority::HostOnly, 1);
    let mut chunks = (0..4).map(|number| Chunk { unit: Unit(0), number });
    let chunk = chunks.find(|chunk| !sim.media().is_bad(*chunk)).unwrap();
    sim.write(chunk, 0, 0).unwrap();
    assert_eq!(sim.reset(chunk, 1), Err(MediaError::Writing(chunk)));
    while sim.next_completion().is_some() {}
    sim.reset(chunk, 1).unwrap();
    while sim.next_completion().is_some() {}
    assert_eq!(sim.media().erases(chunk), 1);
}
