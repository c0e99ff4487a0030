//! The order of writes, syncs and answers, with a device whose operations the tests complete.

use super::*;
use crate::reactor_message::Message;
use esker_base::Threads;
use esker_uring::{Inbox, Reactor, Sender, mailbox};

/// A part whose operations the test completes as it pleases.
struct Bench {
    part: Part,
    out: OperationSink,
    replies: Sender<Message>,
    answers: Inbox<Message>,
}

impl Bench {
    fn new(has_volatile_cache: bool) -> Self {
        let (replies, answers) = mailbox(&Reactor::new(1, &Threads).unwrap());
        let part = Part {
            file: std::fs::File::open("/dev/null").unwrap().into(),
            has_volatile_cache,
            failures: Arc::default(),
            tasks: HashMap::new(),
            next_tag: 0,
            syncs: GroupCommit::default(),
            zeroing: 0,
            zeroings: VecDeque::new(),
            can_free: true,
            is_closing: false,
        };
        Bench { part, out: OperationSink::default(), replies, answers }
    }

    fn request(&mut self, slot: u16, request: Request) {
        let reply = Reply::new(self.replies.clone(), 0, slot);
        self.part.request(request, reply, &mut self.out);
    }

    fn write(&mut self, slot: u16, force_unit_access: bool) {
        let data = Buffer::zeroed(512).whole();
        self.request(slot, Request::Write { offset: 0, data, force_unit_access });
    }

    fn zero(&mut self, slot: u16, bytes: u64, force_unit_access: bool) {
        self.request(slot, Request::WriteZeroes { offset: 4096, bytes, force_unit_access });
    }

    /// Completes the oldest operation. Says whether it was a sync.
    fn complete(&mut self, result: io::Result<usize>) -> bool {
        let (tag, operation) = self.out.operations.remove(0);
        let is_sync = matches!(operation, Operation::SyncData { .. });
        self.part.completed(tag, result, operation, &mut self.out);
        is_sync
    }

    /// The slots that were answered, with a minus if the answer was a failure.
    fn answered(&self) -> Vec<i32> {
        let answers = std::iter::from_fn(|| self.answers.take());
        let number = |message| match message {
            Message::Answered { slot, answer: Answer::Failed(_), .. } => -i32::from(slot),
            Message::Answered { slot, .. } => slot.into(),
            other => panic!("{other:?}"),
        };
        answers.map(number).collect()
    }
}

#[test]
fn a_write_is_acknowledged_after_a_sync_that_began_when_it_was_done() {
    let mut bench = Bench::new(false);
    bench.write(1, false);
    bench.write(2, false);
    assert!(!bench.complete(Ok(512)) && bench.answered().is_empty());
    // The sync for the first begins before the second is done.
    assert!(!bench.complete(Ok(512)) && bench.out.operations.len() == 1);
    bench.write(3, false);
    assert!(bench.complete(Ok(0)));
    assert_eq!(bench.answered(), [1]);
    assert!(!bench.complete(Ok(512)));
    assert!(bench.complete(Ok(0)));
    assert_eq!(bench.answered(), [2]);
    assert!(bench.complete(Ok(0)));
    assert_eq!(bench.answered(), [3]);
    bench.request(4, Request::Flush);
    assert_eq!(bench.answered(), [4], "there is nothing to flush");
}

#[test]
fn with_a_cache_a_flush_or_force_unit_access_syncs() {
    let mut bench = Bench::new(true);
    bench.write(1, false);
    assert!(!bench.complete(Ok(512)));
    assert_eq!(bench.answered(), [1]);
    bench.request(2, Request::Flush);
    assert!(bench.answered().is_empty() && bench.complete(Ok(0)));
    assert_eq!(bench.answered(), [2]);
    bench.write(3, true);
    assert!(!bench.complete(Ok(512)) && bench.answered().is_empty());
    assert!(bench.complete(Ok(0)));
    assert_eq!(bench.answered(), [3]);
}

#[test]
fn with_a_cache_zeros_are_synced_if_unit_access_is_forced() {
    let mut bench = Bench::new(true);
    bench.zero(1, 512, false);
    assert!(!bench.complete(Ok(512)));
    assert_eq!(bench.answered(), [1]);
    bench.zero(2, 512, true);
    assert!(!bench.complete(Ok(512)) && bench.answered().is_empty());
    assert!(bench.complete(Ok(0)));
    assert_eq!(bench.answered(), [2]);
}

#[test]
fn after_a_failed_sync_nothing_is_written() {
    let mut bench = Bench::new(false);
    bench.write(1, false);
    bench.complete(Ok(512));
    bench.write(2, false);
    assert!(bench.complete(Err(ErrorKind::Other.into())));
    bench.complete(Ok(512));
    bench.write(3, false);
    assert_eq!(bench.answered(), [-1, -2, -3]);
    bench.request(4, Request::Read { offset: 0, bytes: 512 });
    bench.complete(Ok(512));
    assert_eq!(bench.answered(), [4], "reads go on");
    assert!(bench.part.failures.has_stopped());
}

#[test]
fn what_the_device_fails_is_told_and_a_full_one_is_none() {
    let mut bench = Bench::new(true);
    let faults = |bench: &Bench| bench.part.failures.faults();
    bench.write(1, false);
    bench.complete(Err(ErrorKind::StorageFull.into()));
    assert_eq!((bench.answered(), faults(&bench)), (vec![-1], 0));
    bench.write(2, false);
    bench.complete(Err(ErrorKind::Other.into()));
    assert_eq!((bench.answered(), faults(&bench)), (vec![-2], 1));
    for result in [Err(ErrorKind::Other.into()), Ok(100)] {
        bench.request(3, Request::Read { offset: 0, bytes: 512 });
        bench.complete(result);
    }
    assert_eq!((bench.answered(), faults(&bench)), (vec![-3, -3], 3));
    assert!(!bench.part.failures.has_stopped(), "another write may succeed");
}

#[test]
fn few_ranges_are_zeroed_at_a_time_and_all_of_them_in_the_end() {
    let mut bench = Bench::new(true);
    (1..=20).for_each(|slot| bench.zero(slot, 512, false));
    assert_eq!(bench.out.operations.len(), ZEROINGS_MOST);
    assert!(!bench.complete(Ok(512)));
    assert_eq!((bench.answered(), bench.out.operations.len()), (vec![1], ZEROINGS_MOST));
    while !bench.out.operations.is_empty() {
        bench.complete(Ok(512));
    }
    assert_eq!(bench.answered(), (2..=20).collect::<Vec<_>>());
}

#[test]
fn a_node_that_closes_does_not_wait_until_all_is_zeroed() {
    let mut bench = Bench::new(true);
    let most = ZEROINGS_MOST as u16;
    (1..=most + 1).for_each(|slot| bench.zero(slot, 2 * ZEROS_BYTES, false));
    bench.part.close(&mut bench.out);
    assert_eq!(bench.answered(), [-i32::from(most + 1)], "it had not begun");
    (0..most).for_each(|_| _ = bench.complete(Ok(ZEROS_BYTES as usize)));
    assert!(bench.out.operations.is_empty());
    assert_eq!(bench.answered(), (1..=most).map(|slot| -i32::from(slot)).collect::<Vec<_>>());
}

#[test]
fn after_a_failed_sync_no_more_is_zeroed() {
    let mut bench = Bench::new(false);
    bench.write(1, false);
    bench.complete(Ok(512));
    (2..=12).for_each(|slot| bench.zero(slot, 2 * ZEROS_BYTES, false));
    assert!(bench.complete(Err(ErrorKind::Other.into())));
    while !bench.out.operations.is_empty() {
        bench.complete(Ok(ZEROS_BYTES as usize));
    }
    let mut answered = bench.answered();
    answered.sort_unstable();
    assert_eq!(answered, (-12..=-1).collect::<Vec<_>>());
    assert!(bench.part.zeroing == 0 && bench.part.tasks.is_empty());
}

#[test]
fn zeros_are_written_piece_by_piece() {
    let mut bench = Bench::new(false);
    bench.zero(1, ZEROS_BYTES + 512, false);
    let mut written = Vec::new();
    while let Some((_, Operation::WriteAt { offset, from, .. })) = bench.out.operations.first() {
        written.push((*offset, from.len()));
        let bytes = from.len();
        bench.complete(Ok(bytes));
    }
    assert_eq!(written, [(4096, ZEROS_BYTES as usize), (4096 + ZEROS_BYTES, 512)]);
    assert!(bench.answered().is_empty() && bench.complete(Ok(0)));
    assert_eq!(bench.answered(), [1]);
}

fn deallocate(bench: &mut Bench, slot: u16, ranges: &[(u64, u64)]) {
    let ranges = ranges.iter().copied().collect();
    bench.request(slot, Request::Deallocate { ranges });
}

/// The operations that wait, in words.
fn waiting(bench: &Bench) -> Vec<String> {
    let word = |(_, operation): &(u64, Operation)| match operation {
        Operation::Deallocate { offset, bytes, .. } => format!("free {offset}+{bytes}"),
        Operation::WriteAt { offset, from, .. } => format!("write {offset}+{}", from.len()),
        Operation::SyncData { .. } => "sync".to_owned(),
        other => panic!("{other:?}"),
    };
    bench.out.operations.iter().map(word).collect()
}

#[test]
fn ranges_are_freed_in_their_order_and_acknowledged_after_a_sync() {
    let mut bench = Bench::new(false);
    deallocate(&mut bench, 1, &[(4096, 8192), (0, 512)]);
    assert_eq!(waiting(&bench), ["free 4096+8192"]);
    bench.complete(Ok(0));
    assert_eq!(waiting(&bench), ["free 0+512"]);
    bench.complete(Ok(0));
    assert_eq!((waiting(&bench), bench.answered()), (vec!["sync".to_owned()], vec![]));
    bench.complete(Ok(0));
    assert_eq!(bench.answered(), [1]);
}

#[test]
fn with_a_cache_ranges_are_acknowledged_when_they_are_freed() {
    let mut bench = Bench::new(true);
    deallocate(&mut bench, 1, &[(0, 512)]);
    bench.complete(Ok(0));
    assert_eq!((waiting(&bench).len(), bench.answered()), (0, vec![1]));
}

#[test]
fn a_device_that_can_free_nothing_keeps_the_ranges_and_is_not_asked_again() {
    let mut bench = Bench::new(false);
    // As many blocks as a command can name: zeros in their place would take hours.
    deallocate(&mut bench, 1, &[(0, 512), (4096, 1 << 41)]);
    bench.complete(Err(ErrorKind::Unsupported.into()));
    assert_eq!(waiting(&bench), ["sync"], "an earlier range may have been freed");
    assert!(bench.complete(Ok(0)));
    assert_eq!(bench.answered(), [1]);
    deallocate(&mut bench, 2, &[(0, 1 << 41)]);
    assert_eq!((waiting(&bench).len(), bench.answered()), (0, vec![2]));
    assert_eq!((bench.part.failures.faults(), bench.part.zeroing), (0, 0));
    // Write Zeroes is no hint.
    bench.zero(3, 512, false);
    assert_eq!(waiting(&bench), ["write 4096+512"]);
}

#[test]
fn a_device_that_fails_to_free_a_range_fails_the_command() {
    let mut bench = Bench::new(false);
    deallocate(&mut bench, 1, &[(0, 512), (4096, 512)]);
    bench.complete(Err(ErrorKind::Other.into()));
    assert_eq!((waiting(&bench).len(), bench.answered()), (0, vec![-1]));
    assert_eq!((bench.part.failures.faults(), bench.part.zeroing), (1, 0));
}

#[test]
fn after_a_failed_sync_no_more_is_freed() {
    let mut bench = Bench::new(false);
    bench.write(1, false);
    bench.complete(Ok(512));
    deallocate(&mut bench, 2, &[(0, 512), (4096, 512)]);
    assert!(bench.complete(Err(ErrorKind::Other.into())), "the write's sync");
    bench.complete(Ok(0));
    assert_eq!((waiting(&bench).len(), bench.answered()), (0, vec![-1, -2]));
}
