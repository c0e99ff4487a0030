//! Tests of planes that read independently, and of planes that do not.

use super::*;

const PLANE: u32 = 16 << 10;

/// A device of four planes a die, which read independently or not.
fn device(are_independent: bool, form: ReadPriority) -> Sim {
    filled(&preset().with_independent_plane_reads(are_independent), form)
}

/// Reads 4 KiB on a plane of a die.
fn read_plane(sim: &mut Sim, unit: u16, plane: u32) {
    read_part(sim, unit, plane * PLANE..plane * PLANE + 4_096);
}

fn read_part(sim: &mut Sim, unit: u16, part: Range<u32>) {
    let chunk = good(sim, unit, 0);
    sim.read(chunk, 0, part, 0).unwrap();
}

fn wait_until(sim: &mut Sim, at: u64) {
    sim.alarm(at, 0);
    while sim.next_completion().unwrap().kind != Kind::Alarm {}
}

fn moments(sim: &mut Sim) -> Vec<u64> {
    ends(sim).into_iter().map(|(at, _)| at).collect()
}

#[test]
fn two_planes_of_a_die_take_two_senses_for_two_reads_or_one() {
    for (are_independent, last) in [(false, 2 * (SENSE + OUT)), (true, SENSE + 2 * OUT)] {
        let mut sim = device(are_independent, ReadPriority::HostOnly);
        read_plane(&mut sim, 5, 0);
        read_plane(&mut sim, 5, 1);
        assert_eq!(moments(&mut sim), [SENSE + OUT, last].map(|at| 2_000 + at + SEND));
        // The channel is all that they share.
        assert_eq!(sim.read_ns(Unit(5)), last);
    }
}

#[test]
fn two_reads_of_one_plane_take_two_senses_even_if_planes_are_independent() {
    let mut sim = device(true, ReadPriority::HostOnly);
    read_plane(&mut sim, 5, 2);
    read_plane(&mut sim, 5, 2);
    let expected = [SENSE + OUT, 2 * (SENSE + OUT)].map(|at| 2_000 + at + SEND);
    assert_eq!(moments(&mut sim), expected);
}

#[test]
fn a_saturated_die_reads_as_many_pages_at_a_time_as_it_has_planes() {
    let mut sim = device(true, ReadPriority::HostOnly);
    for _ in 0..50 {
        (0..4).for_each(|plane| read_plane(&mut sim, 5, plane));
    }
    // Each plane has its next read sensed and out in 66 us, and the four share a channel that takes 16 us for each.
    let turn = SENSE + OUT;
    let last = 2_000 + 50 * turn + 3 * OUT + SEND;
    assert_eq!(moments(&mut sim).pop(), Some(last));
}

#[test]
fn a_read_waits_for_its_plane_and_others_go_before_it() {
    let mut sim = device(true, ReadPriority::HostOnly);
    for plane in [0, 0, 1] {
        read_plane(&mut sim, 5, plane);
    }
    let first = 2_000 + SENSE + OUT;
    // The third is sensed with the first, and the second after it.
    let expected = [first, first + OUT, first + SENSE + OUT].map(|at| at + SEND);
    assert_eq!(moments(&mut sim), expected);
}

#[test]
fn a_read_of_several_planes_is_not_overtaken_on_one_of_them() {
    let mut sim = device(true, ReadPriority::HostOnly);
    read_plane(&mut sim, 5, 0);
    read_part(&mut sim, 5, 0..2 * PLANE);
    read_plane(&mut sim, 5, 1);
    let first = 2_000 + SENSE + OUT;
    let both = first + SENSE + 2 * 65_536;
    let expected = [first + SEND, both + 8 * SEND, both + SENSE + OUT + SEND];
    assert_eq!(moments(&mut sim), expected);
}

#[test]
fn a_read_of_several_planes_has_them_all_and_is_sensed_once() {
    let mut sim = device(true, ReadPriority::HostOnly);
    read_part(&mut sim, 5, 0..2 * PLANE);
    read_plane(&mut sim, 5, 1);
    read_plane(&mut sim, 5, 3);
    let page = 65_536; // 16 KiB, a piece on the channel
    let sent = 8 * SEND;
    // Between its two pieces the last read has its turn.
    let (last, first) = (2_000 + SENSE + page + OUT, 2_000 + SENSE + 2 * page + OUT);
    let second = first + SENSE + OUT;
    assert_eq!(moments(&mut sim), [last + SEND, first + sent, second + SEND]);
}

#[test]
fn a_write_begins_when_no_plane_reads_and_no_read_goes_before_it() {
    let mut sim = device(true, ReadPriority::HostOnly);
    write(&mut sim, 5);
    wait_until(&mut sim, TAKE + 3_000 - 1);
    // These arrive 2 us from now: the write is there before.
    read_plane(&mut sim, 5, 0);
    read_plane(&mut sim, 5, 1);
    let programmed = TAKE + 3_000 + IN + PROGRAM;
    let first = programmed + SENSE + OUT;
    assert_eq!(moments(&mut sim), [programmed, first + SEND, first + OUT + SEND]);
}

#[test]
fn an_erase_waits_for_the_planes_that_read() {
    let mut sim = device(true, ReadPriority::HostOnly);
    read_plane(&mut sim, 5, 0);
    read_plane(&mut sim, 5, 1);
    wait_until(&mut sim, 10_000);
    let chunk = good(&sim, 5, 1);
    sim.reset(chunk, 0).unwrap();
    read_plane(&mut sim, 5, 2);
    let out = 2_000 + SENSE + 2 * OUT;
    let erased = out + 3_000_000;
    let expected = [out - OUT + SEND, out + SEND, erased, erased + SENSE + OUT + SEND];
    assert_eq!(moments(&mut sim), expected);
}

#[test]
fn a_program_gives_way_once_to_reads_of_several_planes() {
    let mut sim = device(true, ReadPriority::Suspend(15_000));
    write(&mut sim, 5);
    let begin = TAKE + 3_000 + IN;
    wait_until(&mut sim, begin + 100_000);
    (0..3).for_each(|plane| read_plane(&mut sim, 5, plane));
    let sensed = begin + 102_000 + 15_000 + SENSE;
    let reads = [1, 2, 3].map(|n| sensed + n * OUT + SEND);
    let programmed = sensed + 3 * OUT + 15_000 + PROGRAM - 102_000;
    assert_eq!(moments(&mut sim), [&reads[..], &[programmed]].concat());
}

#[test]
fn a_write_that_is_late_goes_before_reads_of_any_plane() {
    let mut sim = device(true, ReadPriority::ReadsFirst);
    (0..2).for_each(|_| read_plane(&mut sim, 5, 0));
    write(&mut sim, 5);
    let mut last = 0;
    for plane in (0..4).cycle() {
        let done = sim.next_completion().unwrap();
        last = done.at;
        match done.kind {
            Kind::Write => break,
            _ => read_plane(&mut sim, 5, plane),
        }
    }
    let most = read_priority::WRITE_DEADLINE_NS + SENSE + 2 * OUT + IN + PROGRAM;
    assert!(last > read_priority::WRITE_DEADLINE_NS && last <= most, "{last}");
}

#[test]
fn planes_that_read_when_the_power_goes_are_free_when_it_is_back() {
    let mut sim = device(true, ReadPriority::HostOnly);
    (0..4).for_each(|plane| read_plane(&mut sim, 5, plane));
    wait_until(&mut sim, 10_000);
    sim.power_cut();
    read_plane(&mut sim, 5, 0);
    assert_eq!(moments(&mut sim), [12_000 + SENSE + OUT + SEND]);
}

/// All completions of reads on random planes and writes.
fn history(seed: u64, are_independent: bool, form: ReadPriority) -> (Vec<Completion>, u64) {
    let mut sim = device(are_independent, form);
    let mut rng = esker_base::Rng::new(seed);
    let mut next = |sim: &mut Sim, kind| match kind {
        Kind::Read => {
            let from = rng.below(8) as u32;
            let to = from + 1 + rng.below(8 - u64::from(from)) as u32;
            read_part(sim, rng.below(128) as u16, from * 8_192..to * 8_192);
        }
        _ => write(sim, rng.below(128) as u16),
    };
    (0..300).for_each(|_| next(&mut sim, Kind::Read));
    (0..40).for_each(|_| next(&mut sim, Kind::Write));
    let mut all = Vec::new();
    while all.len() < 20_000 {
        let done = sim.next_completion().unwrap();
        all.push(done);
        next(&mut sim, done.kind);
    }
    (all, sim.events())
}

#[test]
fn equal_runs_of_independent_planes_are_equal_to_the_event() {
    for form in [ReadPriority::HostOnly, ReadPriority::ReadsFirst, ReadPriority::Suspend(15_000)] {
        assert_eq!(history(3, true, form), history(3, true, form));
        assert_ne!(history(3, true, form), history(3, false, form));
    }
}

#[test]
fn reads_of_random_planes_come_sooner_where_planes_are_independent() {
    let [together, apart] = [false, true].map(|are_independent| {
        let mut sim = device(are_independent, ReadPriority::HostOnly);
        let mut rng = esker_base::Rng::new(7);
        (0..200).for_each(|_| read_plane(&mut sim, 5, rng.below(4) as u32));
        moments(&mut sim).pop().unwrap()
    });
    assert_eq!(together, 2_000 + 200 * (SENSE + OUT) + SEND);
    assert!(apart * 2 < together, "{apart} and {together} ns");
}
