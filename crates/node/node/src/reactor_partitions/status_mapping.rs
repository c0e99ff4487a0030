//! What came of an operation or of a request, in the words of its receiver.

use esker_base::{Error, Result};
use esker_hashstore::partition;
use esker_nvme::Status;
use esker_target::Answer;
use std::io;

/// The same outcome for another.
pub(super) fn again(result: &io::Result<usize>) -> io::Result<usize> {
    let error = |error: &io::Error| match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    };
    result.as_ref().copied().map_err(error)
}

/// What a command is answered whose request came to this.
pub(super) fn answer_of(result: Result<partition::Answer>, asked_for_presence: bool) -> Answer {
    match result {
        Ok(partition::Answer::Done { .. }) => Answer::Done,
        Ok(partition::Answer::Value(value)) => Answer::Data(value),
        Ok(partition::Answer::Absent) => Answer::Failed(Status::KEY_NOT_FOUND),
        Ok(partition::Answer::Present) if asked_for_presence => Answer::Done,
        Ok(partition::Answer::Present) => Answer::Failed(Status::KEY_EXISTS),
        Ok(partition::Answer::Keys(_)) => Answer::Failed(Status::INTERNAL_ERROR),
        Err(error) => Answer::Failed(status_of(&error)),
    }
}

/// Why a partition failed, without what is true of a whole database.
pub(super) fn reason(failure: &Error) -> String {
    match failure {
        Error::LogFailed { cause } => cause.to_string(),
        other => other.to_string(),
    }
}

/// Whether an error is the store's and no fault of the request. One after which nothing is written is reported otherwise.
pub(super) fn is_fault(error: &Error) -> bool {
    error.is_corruption() || error.is_lost() || matches!(error, Error::Io { .. })
}

fn status_of(error: &Error) -> Status {
    match error {
        Error::EmptyKey | Error::KeyTooLong { .. } => Status::INVALID_KEY_SIZE,
        Error::ValueTooLong { .. } => Status::INVALID_VALUE_SIZE,
        Error::CapacityExceeded { .. } => Status::CAPACITY_EXCEEDED,
        Error::LogFailed { .. } => Status::WRITE_FAULT,
        error if error.is_corruption() || error.is_lost() => Status::UNRECOVERED_ERROR,
        // Of a read: a write that failed has made the partition fail.
        Error::Io { .. } => Status::READ_ERROR,
        _ => Status::INTERNAL_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_damaged_or_lost_is_a_fault_that_no_reading_again_mends() {
        let (file, what) = ("store".to_owned(), "gone".to_owned());
        let lost = Error::Lost { file: file.clone(), offset: 7, what: what.clone() };
        let damaged = Error::HashStoreDamaged { store: file, offset: 7, what };
        for error in [lost, damaged] {
            assert!(is_fault(&error), "{error}");
            assert_eq!(status_of(&error), Status::UNRECOVERED_ERROR, "{error}");
        }
        let unread = Error::io("read", "store", io::ErrorKind::Other.into());
        assert!(is_fault(&unread) && status_of(&unread) == Status::READ_ERROR);
        let full = Error::CapacityExceeded { store: String::new(), what: String::new() };
        assert!(!is_fault(&full));
    }
}
