//! CapsuleCmd and CapsuleResp: a submission or completion entry behind the common header (TCP 3.6.2.6, 3.6.2.7).

use super::header::HEADER_BYTES;
use crate::command::{CQE_BYTES, Cqe, SQE_BYTES, Sqe};

pub(crate) fn command_of(header: &[u8]) -> Sqe {
    let entry = &header[HEADER_BYTES..HEADER_BYTES + SQE_BYTES];
    Sqe(entry.try_into().expect("a slice of the entry's length"))
}

pub(crate) fn response_of(header: &[u8]) -> Cqe {
    let entry = &header[HEADER_BYTES..HEADER_BYTES + CQE_BYTES];
    Cqe(entry.try_into().expect("a slice of the entry's length"))
}

pub(crate) fn put_command(out: &mut [u8], sqe: &Sqe) {
    out[HEADER_BYTES..HEADER_BYTES + SQE_BYTES].copy_from_slice(&sqe.0);
}

pub(crate) fn put_response(out: &mut [u8], cqe: &Cqe) {
    out[HEADER_BYTES..HEADER_BYTES + CQE_BYTES].copy_from_slice(&cqe.0);
}
