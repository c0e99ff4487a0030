//! The instructions that the processor really executes, reported to tests: a note that says "flushed" next to an
//! instruction says nothing about the instruction, and neither does memory that has the right bytes.
//!
//! A function is run with the processor's trap flag set. Then every instruction ends in a signal, whose
//! handler inspects the one that comes next. That sees through calls and inlining, so it is the same in debug
//! and release builds.

use super::*;
use std::arch::asm;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, Once};

/// What counts here of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    StoreFence,
    Clwb,
    ClflushOpt,
    Clflush,
    /// A non-temporal store of 16, 32 or 64 bytes.
    Stream(usize),
}

const KINDS: [Kind; 7] = [
    Kind::StoreFence,
    Kind::Clwb,
    Kind::ClflushOpt,
    Kind::Clflush,
    Kind::Stream(16),
    Kind::Stream(32),
    Kind::Stream(64),
];

/// How often each of `KINDS` was met. Static, as a handler can reach nothing else.
static MET: [AtomicUsize; KINDS.len()] = [const { AtomicUsize::new(0) }; KINDS.len()];
static STEPS: AtomicUsize = AtomicUsize::new(0);

/// The longest instruction.
const INSTRUCTION_BYTES_MAX: usize = 15;

/// What the instruction at the front of `code` is, if it counts.
fn kind_of(code: &[u8; INSTRUCTION_BYTES_MAX]) -> Option<Kind> {
    // Non-temporal stores of integers, and of floats, which a compiler may take instead.
    let streams = |opcode: u8| matches!(opcode, 0xe7 | 0x2b);
    let mut at = 0;
    let is_wide = code[at] == 0x66;
    at += usize::from(is_wide);
    at += usize::from(code[at] & 0xf0 == 0x40);
    match code[at..] {
        [0x0f, 0xae, 0xf8, ..] => Some(Kind::StoreFence),
        [0x0f, 0xae, operands, ..] if operands >> 6 != 3 => match (operands >> 3 & 7, is_wide) {
            (6, true) => Some(Kind::Clwb),
            (7, true) => Some(Kind::ClflushOpt),
            (7, false) => Some(Kind::Clflush),
            _ => None,
        },
        [0x0f, opcode, ..] if streams(opcode) => Some(Kind::Stream(16)),
        // VEX: bit 2 of the last prefix byte says 32 bytes.
        [0xc5, last, opcode, ..] if streams(opcode) => Some(Kind::Stream(16 << (last >> 2 & 1))),
        [0xc4, map, last, opcode, ..] if map & 0x1f == 1 && streams(opcode) => {
            Some(Kind::Stream(16 << (last >> 2 & 1)))
        }
        // EVEX: bits 5 and 6 of the last.
        [0x62, map, _, last, opcode, ..] if map & 0x07 == 1 && streams(opcode) => {
            Some(Kind::Stream(16 << (last >> 5 & 3)))
        }
        _ => None,
    }
}

extern "C" fn on_step(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let context: *mut libc::ucontext_t = context.cast();
    // SAFETY: the kernel gives the context of what was interrupted.
    let next = unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] };
    let next: *const u8 = std::ptr::with_exposed_provenance(next as usize);
    let mut code = [0; INSTRUCTION_BYTES_MAX];
    let readable = INSTRUCTION_BYTES_MAX.min(4096 - next.addr() % 4096);
    // SAFETY: the instruction that comes next is mapped, and code is readable; the rest of its page too.
    unsafe { next.copy_to_nonoverlapping(code.as_mut_ptr(), readable) };
    // It may go on in the next page, which need not be there: the kernel fails then, and no signal comes.
    let (start, rest) = (next.wrapping_add(readable), &mut code[readable..]);
    let here = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
    let there = libc::iovec { iov_base: start.cast_mut().cast(), iov_len: rest.len() };
    // SAFETY: the bytes that are written are those of `rest`.
    unsafe { libc::process_vm_readv(libc::getpid(), &here, 1, &there, 1, 0) };
    STEPS.fetch_add(1, Ordering::Relaxed);
    if let Some(kind) = kind_of(&code)
        && let Some(at) = KINDS.iter().position(|&known| known == kind)
    {
        MET[at].fetch_add(1, Ordering::Relaxed);
    }
}

fn listen() {
    // SAFETY: all zeros is a valid value; the handler only reads code and adds to atomics.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_step as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()), 0);
    }
}

/// What counts of what the processor executes in `run`.
fn steps(run: impl FnOnce()) -> Vec<(Kind, usize)> {
    static LISTENING: Once = Once::new();
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    LISTENING.call_once(listen);
    MET.iter().chain([&STEPS]).for_each(|count| count.store(0, Ordering::Relaxed));
    // SAFETY: the trap flag is this thread's own, and there is a handler. What is pushed is taken off again;
    // without `nostack`, the compiler keeps nothing below the stack pointer.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    run();
    // SAFETY: as above.
    unsafe { asm!("pushfq", "and qword ptr [rsp], -257", "popfq") };
    assert!(STEPS.load(Ordering::Relaxed) > 0, "the processor did not stop after each instruction");
    let met = KINDS.into_iter().zip(MET.iter().map(|count| count.load(Ordering::Relaxed)));
    met.filter(|&(_, count)| count > 0).collect()
}

#[repr(align(64))]
struct Lines([u8; 1024]);

#[test]
fn a_fence_is_one_store_fence() {
    assert_eq!(steps(machine::fence), [(Kind::StoreFence, 1)]);
    let ways = Persist::detect(false);
    assert_eq!(steps(|| ways.fence()), [(Kind::StoreFence, 1)]);
    let ways = Persist::detect(true);
    assert_eq!(steps(|| ways.fence()), [(Kind::StoreFence, 1)], "caches that survive");
}

#[test]
fn a_flush_is_one_instruction_for_each_line() {
    let mut memory = Lines([0; 1024]);
    for (flush, kind) in [
        (Flush::Clwb, Kind::Clwb),
        (Flush::ClflushOpt, Kind::ClflushOpt),
        (Flush::Clflush, Kind::Clflush),
    ] {
        if !flush.available() {
            println!("this processor has no {flush}");
            continue;
        }
        for (at, bytes, lines) in [(0, 1, 1), (63, 2, 2), (64, 64, 1), (1, 640, 11)] {
            // SAFETY: the range lies in the memory.
            let seen = steps(|| unsafe { flush.range(memory.0.as_mut_ptr().add(at), bytes) });
            assert_eq!(seen, [(kind, lines)], "{flush}, {bytes} at {at}");
        }
    }
    // SAFETY: as above.
    assert!(steps(|| unsafe { Flush::None.range(memory.0.as_mut_ptr(), 64) }).is_empty());
}

#[test]
fn a_streamed_line_is_stored_around_the_caches_and_not_otherwise() {
    let source = Lines([7; 1024]);
    for (stream, bytes) in [(Stream::Avx512, 64), (Stream::Avx2, 32), (Stream::Sse2, 16)] {
        if !stream.available() {
            println!("this processor has no {stream}");
            continue;
        }
        for lines in [1, 3, 16] {
            let mut memory = Lines([0; 1024]);
            let (to, from) = (memory.0.as_mut_ptr(), source.0.as_ptr());
            // SAFETY: both ranges are valid and apart, and `to` is aligned to a line.
            let seen = steps(|| unsafe { stream.lines(to, from, lines) });
            let stores = lines * LINE_BYTES / bytes;
            assert_eq!(seen, [(Kind::Stream(bytes), stores)], "{stream}, {lines}");
            assert!(memory.0[..lines * LINE_BYTES].iter().all(|&byte| byte == 7), "{stream}");
        }
    }
}

/// The notes that other tests go by are taken next to these instructions: there are as many.
#[test]
fn a_frame_and_a_word_reach_the_medium_by_instructions() {
    let ways = Persist::of(Stream::Sse2, Flush::Clflush, STREAM_FROM_BYTES).unwrap();
    let mut memory = Lines([0; 1024]);
    let to = memory.0.as_mut_ptr();
    // SAFETY: the frame, and the word, lie in the memory, which nobody else has.
    let seen = steps(|| unsafe { ways.write_frame(to, &[1; 32], &[2; 100], 192) });
    assert_eq!(seen, [(Kind::Clflush, 3)]);
    // SAFETY: as above.
    let seen = steps(|| unsafe { ways.write_frame(to, &[1; 32], &[2; 400], 448) });
    assert_eq!(seen, [(Kind::Stream(16), 7 * 4)]);
    // SAFETY: as above.
    let seen = steps(|| unsafe { ways.store_word(to, 5) });
    assert_eq!(seen, [(Kind::Clflush, 1)]);
}

#[test]
fn instructions_are_told_apart() {
    let kind = |code: &[u8]| {
        let mut padded = [0x90; INSTRUCTION_BYTES_MAX];
        padded[..code.len()].copy_from_slice(code);
        kind_of(&padded)
    };
    for (code, expected) in [
        (&[0x0f, 0xae, 0xf8][..], Some(Kind::StoreFence)),
        // mfence and lfence.
        (&[0x0f, 0xae, 0xf0], None),
        (&[0x0f, 0xae, 0xe8], None),
        (&[0x66, 0x0f, 0xae, 0x30], Some(Kind::Clwb)),
        (&[0x66, 0x41, 0x0f, 0xae, 0x37], Some(Kind::Clwb)),
        (&[0x66, 0x0f, 0xae, 0x38], Some(Kind::ClflushOpt)),
        (&[0x0f, 0xae, 0x38], Some(Kind::Clflush)),
        (&[0x66, 0x0f, 0xe7, 0x07], Some(Kind::Stream(16))),
        // movdqa and movups.
        (&[0x66, 0x0f, 0x7f, 0x07], None),
        (&[0x0f, 0x11, 0x07], None),
        (&[0xc5, 0xfd, 0xe7, 0x07], Some(Kind::Stream(32))),
        (&[0xc4, 0xc1, 0x7d, 0xe7, 0x07], Some(Kind::Stream(32))),
        // vmovdqa.
        (&[0xc5, 0xfd, 0x7f, 0x07], None),
        (&[0x62, 0xe1, 0x7d, 0x48, 0xe7, 0x07], Some(Kind::Stream(64))),
        // vmovdqu64.
        (&[0x62, 0xe1, 0xfe, 0x48, 0x6f, 0x06], None),
    ] {
        assert_eq!(kind(code), expected, "{code:x?}");
    }
}
