//! Damage behind the last checkpoint and in the journal: what is sound stays readable, and a repair keeps it.

use crate::disk::{Disk, Faulty, SimDevice};
use crate::machine::{Ledger, Machine, create};
use esker_base::Error;
use esker_hashstore::check::{check, scrub};
use esker_hashstore::device::Device;
use esker_hashstore::repair::{RepairReport, repair};
use esker_hashstore::{Opened, Unreadable, store_file};
use std::collections::BTreeMap;

const KEYS: u8 = 10;

fn key(number: u8) -> Vec<u8> {
    vec![b'k', number]
}

type Values = BTreeMap<u8, Vec<u8>>;

/// Keys that a checkpoint knows, all of them stored again behind it.
fn stored_twice() -> (Machine, Values) {
    let mut machine = Machine::open(create(1 << 20, 7), Ledger::default()).unwrap();
    for _ in 0..2 {
        machine.checkpoint();
        machine.settle();
        for number in 0..KEYS {
            machine.store(&key(number), 700);
            machine.settle();
        }
    }
    let values = values(&mut machine);
    (machine, values)
}

fn values(machine: &mut Machine) -> Values {
    let value = |number| Some((number, machine.find(&key(number)).unwrap()?));
    (0..KEYS).filter_map(value).collect()
}

/// Where the last record of a key begins.
fn place_of(disk: &Disk, key: &[u8]) -> usize {
    let mut bytes = vec![0; disk.bytes()];
    disk.read(0, &mut bytes);
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let records = (0..bytes.len()).step_by(512).filter(|at| bytes[at + 8..at + 12] == *b"EHR1");
    let of_key = records.filter(|at| bytes[at + 56..].starts_with(key));
    of_key.max_by_key(|at| word(at + 16)).unwrap()
}

fn opened(disk: &Disk) -> Result<Opened, Error> {
    store_file::open(&SimDevice::new(disk.clone())).map(|(_, _, opened)| opened)
}

fn repaired(disk: Disk) -> (Disk, RepairReport) {
    let device = SimDevice::new(disk);
    let repaired = repair(&device, Unreadable::Fail).unwrap();
    assert!(check(&device).unwrap().problems.is_empty());
    assert!(scrub(&device).unwrap().problems.is_empty());
    (device.0.into_inner(), repaired)
}

fn zero(disk: &mut Disk, offset: u64, bytes: usize) {
    disk.write(offset, &vec![0; bytes]);
    disk.sync(|_| true);
}

/// The key `number` is damaged, which the store says, and all others are as they were.
fn expect_one_damaged(disk: Disk, number: u8, values: &Values) {
    let mut machine = Machine::open(disk, Ledger::default()).unwrap();
    for (&other, value) in values {
        match machine.find(&key(other)) {
            Ok(found) => assert!(other != number && found.as_ref() == Some(value), "{other}"),
            Err(error) => assert!(error.is_corruption() && other == number, "{other}: {error}"),
        }
    }
    // It goes on being an error, whatever is stored beside it.
    machine.store(b"another", 600);
    machine.settle();
    machine.checkpoint();
    machine.settle();
    let mut machine = Machine::open(machine.disk, Ledger::default()).unwrap();
    assert!(machine.find(&key(number)).is_err());
    machine.store(&key(number), 800);
    machine.settle();
    assert_eq!(machine.find(&key(number)).unwrap().unwrap().len(), 800);
}

#[test]
fn a_damaged_value_behind_the_last_checkpoint_makes_its_key_unreadable_and_no_other() {
    let (machine, mut values) = stored_twice();
    for number in 0..KEYS - 1 {
        let place = place_of(&machine.disk, &key(number));
        let mut disk = machine.disk.clone();
        disk.flip((place as u64 + 300) * 8);
        let found = opened(&disk).unwrap();
        let [write] = &found.damaged[..] else { panic!("{:?}", found.damaged) };
        assert_eq!((&write.key, write.offset), (&key(number), place as u64));
        let report = check(&SimDevice::new(disk.clone())).unwrap();
        assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
        expect_one_damaged(disk.clone(), number, &values);
        let (disk, repaired) = repaired(disk);
        assert_eq!((repaired.dropped, repaired.mended), (1, 0));
        let problem = repaired.problems[0].to_string();
        assert!(problem.contains(&format!("key k{}:", [number].escape_ascii())), "{problem}");
        let value = values.remove(&number);
        let mut machine = Machine::open(disk, Ledger::default()).unwrap();
        assert_eq!(self::values(&mut machine), values);
        values.extend(value.map(|value| (number, value)));
    }
}

#[test]
fn a_header_with_one_damaged_byte_is_unreadable_until_a_repair_mends_it() {
    let (machine, values) = stored_twice();
    let place = place_of(&machine.disk, &key(3));
    for at in 0..58 {
        let mut disk = machine.disk.clone();
        disk.flip((place + at) as u64 * 8 + 5);
        expect_one_damaged(disk.clone(), 3, &values);
        let (disk, repaired) = repaired(disk);
        assert_eq!((repaired.dropped, repaired.mended), (0, 1), "byte {at}");
        let mut machine = Machine::open(disk, Ledger::default()).unwrap();
        assert_eq!(self::values(&mut machine), values);
    }
}

#[test]
fn a_header_that_is_lost_is_named_and_a_repair_keeps_all_other_keys() {
    let (machine, values) = stored_twice();
    let place = place_of(&machine.disk, &key(3));
    for is_known in [true, false] {
        let mut disk = machine.disk.clone();
        match is_known {
            true => (0..3).for_each(|at| disk.flip((place as u64 + at) * 8)),
            false => zero(&mut disk, place as u64, 512),
        }
        let error = opened(&disk).unwrap_err().to_string();
        assert_eq!(error.contains("its key may be k\\x03"), is_known, "{error}");
        assert_eq!(error.contains(&format!("offset {place}")), is_known, "{error}");
        let (disk, repaired) = repaired(disk);
        assert_eq!(repaired.problems[0].to_string(), error);
        let mut machine = Machine::open(disk, Ledger::default()).unwrap();
        for (&number, value) in &values {
            let found = machine.find(&key(number)).unwrap();
            assert_eq!(found.as_ref() == Some(value), number != 3, "{number}");
        }
    }
}

/// The blocks in which checkpoints begin.
fn checkpoints(disk: &Disk) -> Vec<u64> {
    let mut bytes = vec![0; disk.bytes()];
    disk.read(0, &mut bytes);
    let begins = |at: &usize| bytes[at + 8..at + 12] == *b"EHJ1";
    (0..bytes.len()).step_by(512).filter(begins).map(|at| at as u64).collect()
}

#[test]
fn a_repair_finds_all_values_again_whichever_checkpoints_are_lost() {
    let (machine, values) = stored_twice();
    let all = checkpoints(&machine.disk);
    assert!(all.len() > 2, "{all:?}");
    let each = all.iter().map(|at| vec![*at]);
    for lost in each.chain([all.clone()]) {
        let mut disk = machine.disk.clone();
        lost.iter().for_each(|at| zero(&mut disk, *at, 512));
        let (disk, _) = repaired(disk);
        let mut machine = Machine::open(disk, Ledger::default()).unwrap();
        assert_eq!(self::values(&mut machine), values, "without {lost:?}");
        // What is stored now counts at the next opening.
        machine.store(&key(3), 900);
        machine.settle();
        let mut machine = Machine::open(machine.disk, Ledger::default()).unwrap();
        assert_eq!(machine.find(&key(3)).unwrap().unwrap().len(), 900);
    }
}

#[test]
fn a_repair_of_a_sound_store_writes_nothing() {
    let (machine, _) = stored_twice();
    let device = SimDevice::new(machine.disk.clone());
    let before = device.0.borrow().last_write();
    let repaired = repair(&device, Unreadable::Fail).unwrap();
    assert_eq!((repaired.keys, repaired.written), (u64::from(KEYS), 0));
    assert!(repaired.problems.is_empty());
    assert_eq!(device.0.borrow().last_write(), before);
    assert_eq!(device.bytes(), 1 << 20);
}

/// A sector of each structure: the superblocks, the marks, the checkpoints and all records.
fn sectors_in_use(disk: &Disk) -> Vec<u64> {
    disk.written().into_iter().map(|sector| sector as u64 * 512).collect()
}

#[test]
fn a_failed_read_is_not_damage_and_a_repair_then_changes_nothing() {
    let (mut machine, values) = stored_twice();
    for is_behind_the_checkpoint in [true, false] {
        if !is_behind_the_checkpoint {
            // Now recovery does not read the values.
            machine.checkpoint();
            machine.settle();
        }
        let sectors = sectors_in_use(&machine.disk);
        let (mut refused, before) = (0, machine.disk.last_write());
        for &sector in &sectors {
            let device = Faulty::of(machine.disk.clone(), [sector]);
            match repair(&device, Unreadable::Fail) {
                Ok(repaired) => assert!(repaired.problems.is_empty(), "{:?}", repaired.problems),
                Err(error) => {
                    assert!(matches!(error, Error::Io { .. }), "{error}");
                    assert!(error.to_string().contains("an unreadable sector"), "{error}");
                    refused += 1;
                }
            }
            assert_eq!(device.device.0.borrow().last_write(), before, "sector {sector}");
        }
        assert!(refused > sectors.len() / 2, "{refused} of {}", sectors.len());
    }
    let mut machine = Machine::open(machine.disk, Ledger::default()).unwrap();
    assert_eq!(self::values(&mut machine), values);
}

#[test]
fn a_failed_read_beside_damage_fails_a_repair_too() {
    let (machine, _) = stored_twice();
    let mut disk = machine.disk.clone();
    // Without a snapshot everything is salvaged.
    checkpoints(&disk).into_iter().for_each(|at| zero(&mut disk, at, 512));
    let (before, number) = (disk.last_write(), KEYS - 1);
    let place = place_of(&disk, &key(number)) as u64;
    for at in [place, place + 512] {
        let device = Faulty::of(disk.clone(), [at]);
        let error = repair(&device, Unreadable::Fail).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert_eq!(device.device.0.borrow().last_write(), before);
    }
}

#[test]
fn blocks_that_are_given_up_lose_their_own_keys_only_and_can_be_read_again() {
    let (machine, values) = stored_twice();
    for sector in sectors_in_use(&machine.disk) {
        let device = Faulty::of(machine.disk.clone(), [sector]);
        let repaired = repair(&device, Unreadable::GiveUp).unwrap();
        let was_needed = device.unreadable.borrow().is_empty();
        assert_eq!(repaired.problems.is_empty(), !was_needed, "{:?}", repaired.problems);
        // What an open reads can be read again, and the next repair finds nothing.
        let again = repair(&device, Unreadable::Fail).unwrap();
        assert!(again.problems.is_empty(), "sector {sector}: {:?}", again.problems);
        assert_eq!(again.keys, repaired.keys);
        assert!(scrub(&device).unwrap().problems.is_empty());
        let mut machine = Machine::open(device.device.0.into_inner(), Ledger::default()).unwrap();
        let found = self::values(&mut machine);
        let others = values.iter().filter(|(number, value)| found.get(number) == Some(value));
        assert!(others.count() + 1 >= values.len(), "sector {sector}");
    }
}
