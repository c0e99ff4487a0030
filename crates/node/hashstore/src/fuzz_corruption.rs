//! A store whose bytes were changed, opened and used: for the fuzz target, and its short run among the tests. No change may make this
//! panic or run away; and what is stored after an opening that succeeded is there after the next.
//!
//! Tags keep accidental changes out, and would keep a fuzzer out, too. So what is changed can be sealed again: the secret is in the superblock, and
//! who writes to the device can do the same.

use crate::device::Device;
use crate::format::journal::{self, Checkpoint};
use crate::format::record::Record;
use crate::format::{seal, superblock};
use crate::partition::{Answer, Item, Partition, Request, StoreCondition};
use crate::store_file::{self, CreateSettings, drive};
use crate::{Layout, check};
use esker_base::{Result, Rng};
use esker_uring::Buffer;
use std::cell::RefCell;
use std::io;

const DEVICE_BYTES: usize = superblock::DEVICE_BYTES_MIN as usize;
const BLOCK_BYTES: usize = 512;

/// A device in memory.
struct Memory(RefCell<Vec<u8>>);

impl Memory {
    fn place(&self, offset: u64, bytes: usize) -> io::Result<usize> {
        let end = usize::try_from(offset).ok().and_then(|start| start.checked_add(bytes));
        match end.filter(|&end| end <= self.0.borrow().len()) {
            Some(end) => Ok(end - bytes),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Device for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn bytes(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    fn block_bytes(&self) -> u32 {
        BLOCK_BYTES as u32
    }

    fn read_at(&self, offset: u64, out: &mut Buffer) -> io::Result<()> {
        let start = self.place(offset, out.len())?;
        let end = start + out.len();
        out.copy_from_slice(&self.0.borrow()[start..end]);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &Buffer) -> io::Result<()> {
        let start = self.place(offset, bytes.len())?;
        self.0.borrow_mut()[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A sound store: with checkpoints that follow a snapshot, and with records behind the last one.
pub fn sample() -> Vec<u8> {
    let device = Memory(RefCell::new(vec![0; DEVICE_BYTES]));
    let settings = CreateSettings::default().partitions(1);
    store_file::create(&device, &settings, &mut Rng::new(5)).expect("it is large enough");
    let (_, mut partitions, _) = store_file::open(&device).expect("it was just made");
    let partition = &mut partitions[0];
    for number in 0..30u8 {
        store(partition, &device, &[b'k', number], usize::from(number) * 100);
        if number % 7 == 3 {
            let deleted = ask(partition, &device, Request::Delete(vec![b'k', number - 2]));
            deleted.expect("it is there");
        }
        if number % 10 == 9 && number < 25 {
            partition.checkpoint();
            drive(partition, &device);
        }
    }
    device.0.into_inner()
}

/// Opens and uses `sample` with changes, each of four bytes or more: the first says whether all is sealed again and how many bytes
/// are changed, the others where and to what. Says whether it could be opened.
pub fn open(sample: &[u8], changes: &[u8]) -> bool {
    let (mut bytes, seals) = change(sample, changes);
    if seals {
        seal_all(&mut bytes);
    }
    let device = Memory(RefCell::new(bytes));
    let _ = check::scrub(&device);
    let Ok((layout, mut partitions, _)) = store_file::open(&device) else { return false };
    for partition in &mut partitions {
        use_it(partition, &layout, &device);
    }
    true
}

fn use_it(partition: &mut Partition, layout: &Layout, device: &Memory) {
    let keys = partition.list(None, usize::MAX);
    assert_eq!(keys.len() as u64, partition.keys(), "all keys are listed");
    for key in &keys {
        // It is sound, or said not to be.
        let _ = ask(partition, device, Request::Retrieve(key.clone()));
    }
    let own = |key: &[u8; 8]| layout.partition_of(esker_base::hash64(key)) == partition.number();
    let Some(key) = (0..10_000u64).map(u64::to_be_bytes).find(own) else { return };
    let is_stored = store(partition, device, &key, 700);
    if let Some(key) = keys.first() {
        let _ = ask(partition, device, Request::Delete(key.clone()));
    }
    if !is_stored {
        return;
    }
    let (_, mut again, _) = store_file::open(device).expect("it was open, and nothing failed");
    let partition = &mut again[partition.number() as usize];
    match ask(partition, device, Request::Retrieve(key.to_vec())) {
        Ok(Answer::Value(value)) => assert!(value.len() == 700 && value.iter().all(|&b| b == 7)),
        other => panic!("what was stored is not there: {other:?}"),
    }
}

/// Says whether it was done.
fn store(partition: &mut Partition, device: &Memory, key: &[u8], bytes: usize) -> bool {
    let item = Item::of(key, Buffer::from_slice(&vec![7; bytes]).whole(), BLOCK_BYTES as u32);
    ask(partition, device, Request::Store(item, StoreCondition::Always)).is_ok()
}

fn ask(partition: &mut Partition, device: &Memory, request: Request) -> Result<Answer> {
    partition.request(0, request);
    drive(partition, device);
    partition.take_reply().expect("nothing is in progress any more").result
}

/// The sample with changes, and whether it is to be sealed again.
fn change(sample: &[u8], mut changes: &[u8]) -> (Vec<u8>, bool) {
    let mut bytes = sample.to_vec();
    let blocks = used_blocks(sample);
    let mut seals = false;
    while let [kind, block, at, first, rest @ ..] = changes {
        seals |= kind & 1 != 0;
        let more = usize::from(kind >> 1 & 7).min(rest.len());
        let start = blocks[usize::from(*block) % blocks.len()];
        // What a structure says of itself stands at its beginning.
        let at = start + usize::from(*at) % if kind & 16 == 0 { 96 } else { BLOCK_BYTES };
        bytes[at] = *first;
        for (place, byte) in bytes[at + 1..].iter_mut().zip(&rest[..more]) {
            *place = *byte;
        }
        changes = &rest[more..];
    }
    (bytes, seals)
}

/// Where blocks begin that hold anything.
fn used_blocks(sample: &[u8]) -> Vec<usize> {
    let is_used = |block: &[u8]| block.iter().any(|&byte| byte != 0);
    let blocks = sample.chunks(BLOCK_BYTES).enumerate();
    blocks.filter_map(|(number, block)| is_used(block).then_some(number * BLOCK_BYTES)).collect()
}

/// Seals every structure that there seems to be.
fn seal_all(bytes: &mut [u8]) {
    for copy in 0..2 {
        superblock::seal_again(&mut bytes[copy * superblock::PAGE_BYTES as usize..]);
    }
    let copies = &bytes[..superblock::REGIONS_AT as usize];
    let Ok(Layout { secret, .. }) = Layout::decode(copies, "memory") else { return };
    for at in (superblock::REGIONS_AT as usize..bytes.len()).step_by(BLOCK_BYTES) {
        let rest = &mut bytes[at..];
        let checkpoint = Checkpoint::bytes_of(rest).and_then(|bytes| usize::try_from(bytes).ok());
        let sealed = checkpoint.or(Record::prefix_bytes(rest)).or(journal::mark_bytes(rest));
        if let Some(sealed) = sealed.and_then(|sealed| rest.get_mut(..sealed)) {
            seal(sealed, secret);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDS: u64 = 3000;

    #[test]
    fn a_sample_that_is_not_changed_is_opened() {
        let sample = sample();
        assert!(open(&sample, b""));
        // Sealed again it is the same.
        let mut sealed = sample.clone();
        seal_all(&mut sealed);
        assert!(sealed == sample);
    }

    /// A program that can seal can write any number: each field of each structure at the ends of its range.
    #[test]
    fn numbers_that_no_store_writes_are_refused_or_mean_something() {
        const SEALED: u8 = 1;
        let sample = sample();
        let begins_a_structure = |start: &usize| {
            let magic = &sample[start + 8..start + 10];
            magic == b"EH" || magic == b"ES"
        };
        let blocks = used_blocks(&sample);
        let mut refused = 0;
        for number in (0..=255u8).take(blocks.len()) {
            if !begins_a_structure(&blocks[usize::from(number)]) {
                continue;
            }
            for at in (8..92).step_by(4) {
                for (byte, bytes) in [(0, 8), (1, 1), (0xff, 4), (0xff, 8), (0x3f, 8)] {
                    let mut changes = vec![SEALED | (bytes - 1) << 1, number, at];
                    changes.resize(3 + usize::from(bytes), byte);
                    refused += u32::from(!open(&sample, &changes));
                }
            }
        }
        assert!(refused > 100, "{refused}");
    }

    #[test]
    fn a_store_that_was_changed_is_opened_or_refused() {
        let sample = sample();
        let (mut opened, mut rng) = (0, Rng::new(11));
        for round in 0..ROUNDS {
            let mut changes = vec![0; 4 + rng.below(20) as usize];
            rng.fill(&mut changes);
            // Numbers at the ends of the scale find what does not fit.
            for byte in &mut changes[3..] {
                *byte =
                    if rng.one_in(2) { [0, 1, 0x7f, 0xff][rng.below(4) as usize] } else { *byte };
            }
            changes[0] = changes[0] & !1 | (round % 2) as u8;
            opened += u64::from(open(&sample, &changes));
        }
        assert!((ROUNDS / 20..ROUNDS).contains(&opened), "{opened} of {ROUNDS} opened");
    }
}
