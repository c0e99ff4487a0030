//! Damage: a bit that flips on the disk is found, and its place is reported.

use crate::disk::{Disk, Faulty, SimDevice};
use crate::machine::{Ledger, Machine, create, create_for};
use esker_base::{Error, Rng};
use esker_hashstore::check::{check, scrub};
use esker_hashstore::partition::{Item, Request, StoreCondition};
use esker_hashstore::store_file::{self, CreateSettings};

fn stored() -> Machine {
    let mut machine = Machine::open(create(1 << 20, 7), Ledger::default()).unwrap();
    for number in 0..40u8 {
        machine.store(&[b'k', number], usize::from(number) * 150);
    }
    machine.settle();
    machine.checkpoint();
    machine.settle();
    machine
}

/// What is found of all keys, or the first error.
fn find_all(disk: Disk) -> Result<Vec<Option<Vec<u8>>>, Error> {
    let mut machine = Machine::open(disk, Ledger::default())?;
    (0..40u8).map(|number| machine.find(&[b'k', number])).collect()
}

#[test]
fn a_flipped_bit_is_found_or_means_nothing() {
    let machine = stored();
    let whole = find_all(machine.disk.clone()).unwrap();
    let mut rng = Rng::new(3);
    let (mut found, mut harmless) = (0, 0);
    // Most of the disk is empty: half of the flips are where something was written.
    let written = machine.disk.written();
    for turn in 0..4000 {
        let mut disk = machine.disk.clone();
        let sector = match turn % 2 {
            0 => written[rng.below(written.len() as u64) as usize] as u64,
            _ => rng.below(disk.bytes() as u64 / 512),
        };
        let bit = sector * 4096 + rng.below(4096);
        disk.flip(bit);
        match find_all(disk) {
            Ok(values) => {
                assert!(values == whole, "a wrong answer after bit {bit} flipped");
                harmless += 1;
            }
            Err(Error::HashStoreDamaged { offset, .. }) => {
                found += 1;
                assert!(offset < 1 << 20);
            }
            Err(other) => panic!("bit {bit}: {other}"),
        }
    }
    assert!(found > 500 && harmless > 500, "{found} found, {harmless} harmless");
}

/// The front was written when all pieces were durable; and that it was durable itself nothing else says yet.
#[test]
fn a_snapshot_that_has_lost_a_piece_is_damage() {
    let disk = create_for(4 << 20, 512, 7);
    let mut machine = Machine::open(disk, Ledger::default()).unwrap();
    for number in (0..12).cycle() {
        machine.store(&[number; 9000], 0);
        machine.settle();
        if machine.fronts > 0 {
            break;
        }
    }
    let disk = machine.disk.crash(0);
    let word = |sector: &[u8], at: usize| u64::from_le_bytes(sector[at..][..8].try_into().unwrap());
    let mut all = vec![0; disk.bytes()];
    disk.read(0, &mut all);
    let checkpoints = all.chunks(512).enumerate().filter(|(_, it)| it[8..12] == *b"EHJ1");
    let (latest, _) = checkpoints.clone().max_by_key(|(_, it)| word(it, 16)).unwrap();
    let generation = word(&all[latest * 512..], 24);
    let of_it = checkpoints.filter(|(_, it)| word(it, 24) == generation).map(|(at, _)| at);
    let parts: Vec<usize> = of_it.collect();
    assert!(parts.len() > 2, "the front, a piece and the last one: {parts:?}");
    assert!(Machine::open(disk.clone(), Ledger::default()).is_ok());
    for &part in &parts[1..] {
        let mut disk = disk.clone();
        disk.flip(part as u64 * 4096 + 4000);
        let opened = Machine::open(disk, Ledger::default()).map(drop);
        assert!(matches!(opened, Err(Error::HashStoreDamaged { .. })), "{part}: {opened:?}");
    }
}

/// Records behind the last checkpoint that no checkpoint knows of: later ones say that they were durable, so their keys cannot be
/// read. Of the last one nothing says that: it may have been on its way.
#[test]
fn a_flipped_bit_behind_the_last_checkpoint_is_no_torn_tail() {
    let mut machine = Machine::open(create(1 << 20, 7), Ledger::default()).unwrap();
    let before = machine.disk.written();
    for number in 0..10u8 {
        machine.store(&[b'k', number], 700);
        machine.settle();
    }
    let mut written = machine.disk.written();
    written.retain(|sector| !before.contains(sector));
    let last = written.split_off(written.len() - 2);
    let mut rng = Rng::new(4);
    for sector in written {
        let mut disk = machine.disk.clone();
        disk.flip(sector as u64 * 4096 + rng.below(100));
        let mut opened = Machine::open(disk, Ledger::default()).unwrap();
        let unreadable = (0..10u8).filter(|number| {
            let found = opened.find(&[b'k', *number]);
            assert!(!matches!(found, Ok(None)), "sector {sector}: {number} is lost");
            matches!(found, Err(Error::HashStoreDamaged { .. }))
        });
        assert_eq!(unreadable.count(), 1, "sector {sector}");
    }
    for sector in last {
        let mut disk = machine.disk.clone();
        disk.flip(sector as u64 * 4096 + rng.below(100));
        assert_eq!(Machine::open(disk, Ledger::default()).unwrap().find(b"k\x09").unwrap(), None);
    }
}

#[test]
fn a_partition_that_cannot_be_read_is_a_problem_and_the_others_are_looked_over() {
    let device = SimDevice::new(Disk::new(4 << 20));
    let settings = CreateSettings::default().partitions(2);
    store_file::create(&device, &settings, &mut Rng::new(1)).unwrap();
    let (layout, mut partitions, _) = store_file::open(&device).unwrap();
    for partition in &mut partitions {
        for key in 0..5 + partition.number() {
            let item = Item::new(&key.to_be_bytes(), 700, 512);
            partition.request(0, Request::Store(item, StoreCondition::Always));
        }
        store_file::drive(partition, &device);
    }
    let device = Faulty::of(device.0.into_inner(), [layout.half(0, 1)]);
    for report in [check(&device).unwrap(), scrub(&device).unwrap()] {
        let [problem] = &report.problems[..] else { panic!("{:?}", report.problems) };
        assert!(problem.to_string().contains("an unreadable sector"), "{problem}");
        assert_eq!(report.keys, 6);
    }
}
