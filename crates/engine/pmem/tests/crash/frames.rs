//! Frames for the tests: an epoch, a checksum over it and everything else, and a body that follows from
//! epoch and number.

use esker_base::Rng;
use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::u32_at;
use esker_pmem::{Durable, Extent, ExtentRange};

pub const HEADER_BYTES: usize = 32;

/// What a segment of the tests starts with.
pub fn segment_header(epoch: u32) -> [u8; 64] {
    let mut header = [0x5e; 64];
    header[..4].copy_from_slice(&epoch.to_le_bytes());
    let checksum = crc32c(&header[..60]);
    header[60..].copy_from_slice(&checksum.to_le_bytes());
    header
}

fn body(epoch: u32, number: u32) -> Vec<u8> {
    let mut rng = Rng::new(u64::from(epoch) << 32 | u64::from(number));
    let mut body = vec![0; 1 + rng.below(300) as usize];
    rng.fill(&mut body);
    body
}

fn header(epoch: u32, number: u32, body: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&epoch.to_le_bytes());
    header[8..12].copy_from_slice(&(body.len() as u32).to_le_bytes());
    header[12..16].copy_from_slice(&number.to_le_bytes());
    header[16..].fill(0xee);
    let checksum = crc32c_append(crc32c_append(crc32c(&header[..4]), &header[8..]), body);
    header[4..8].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// The bytes that a frame takes.
pub fn frame_bytes(epoch: u32, number: u32) -> usize {
    (HEADER_BYTES + body(epoch, number).len()).next_multiple_of(64)
}

/// Writes a frame and makes it durable.
pub fn commit(extent: &Extent, at: usize, number: u32) -> Durable<ExtentRange> {
    let body = body(extent.epoch(), number);
    let header = header(extent.epoch(), number, &body);
    let whole = frame_bytes(extent.epoch(), number);
    // SAFETY: each frame has a place of its own.
    unsafe { extent.write_frame(at, &header, &body, whole) }.fence()
}

/// The number of frames in a segment, which must be those of its epoch, from `first` on.
pub fn frames_in(segment: &[u8], epoch: u32) -> Result<u32, String> {
    if segment[..64] != segment_header(epoch) {
        return Err(format!("the header of segment {epoch} is not there"));
    }
    Ok(frames_from(segment, epoch, 64, 0))
}

/// The number of whole frames from `at` on, the first being `first`.
pub fn frames_from(segment: &[u8], epoch: u32, mut at: usize, first: u32) -> u32 {
    let mut number = first;
    while let Some(found) = segment.get(at..at + HEADER_BYTES) {
        let end = at + HEADER_BYTES + u32_at(found, 8) as usize;
        let Some(found_body) = segment.get(at + HEADER_BYTES..end) else { break };
        let own = u32_at(found, 0) == epoch && u32_at(found, 12) == number;
        let sum = crc32c_append(crc32c_append(crc32c(&found[..4]), &found[8..]), found_body);
        if !own || sum != u32_at(found, 4) {
            break;
        }
        // No writer made it unless this is the very frame.
        assert_eq!(found_body, body(epoch, number));
        at += frame_bytes(epoch, number);
        number += 1;
    }
    number - first
}
