//! Chooses how zones are written while a disk is open: by Zone Append or at the write pointer.
//!
//! The first write decides, while others wait for it. If the kernel rejects appends, the disk has
//! received nothing, and zones are written at their write pointers. After one successful append
//! there is no fallback: since Linux 6.10, the kernel rejects other writes to zones that were
//! appended to. A later rejection is an error.

use esker_uring::Buffer;
use std::io;
use std::sync::OnceLock;

/// Why nothing was appended.
pub(super) enum Failure {
    /// The kernel does not take the command, or not from this user; the disk saw nothing of it. The bytes come back.
    Refused(io::Error, Buffer),
    Failed(io::Error),
}

/// Whether zones are appended to, or why not; empty before the first write.
#[derive(Default)]
pub(super) struct WriteMode(OnceLock<Result<(), String>>);

impl WriteMode {
    /// Why zones are not appended to, if that has shown.
    pub(super) fn why_not(&self) -> Option<&String> {
        self.0.get().and_then(|way| way.as_ref().err())
    }

    /// Says where the bytes were appended, or gives them back if they are to be written without.
    pub(super) fn append(
        &self,
        bytes: Buffer,
        append: impl Fn(Buffer) -> Result<u64, Failure>,
    ) -> io::Result<Result<u64, Buffer>> {
        let mut held = Some(bytes);
        let mut first = None;
        let way = self.0.get_or_init(|| match append(held.take().expect("it was just given")) {
            Err(Failure::Refused(error, bytes)) => {
                held = Some(bytes);
                Err(error.to_string())
            }
            outcome => {
                first = Some(outcome);
                Ok(())
            }
        });
        match (way, held) {
            (Err(_), Some(bytes)) => Ok(Err(bytes)),
            (_, held) => {
                let outcome = first.or_else(|| held.map(append));
                Ok(Ok(outcome.expect("the bytes were appended, or are held")?))
            }
        }
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error, _) => {
                let what = format!("the kernel took appends, and takes no more: {error}");
                io::Error::new(error.kind(), what)
            }
            Failure::Failed(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::io::ErrorKind;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn refuse(bytes: Buffer) -> Result<u64, Failure> {
        Err(Failure::Refused(ErrorKind::PermissionDenied.into(), bytes))
    }

    fn block() -> Buffer {
        Buffer::zeroed(4096)
    }

    #[test]
    fn where_the_first_append_is_refused_all_is_written_without() {
        let way = WriteMode::default();
        assert_eq!(way.why_not(), None);
        let first = way.append(block(), refuse).unwrap();
        assert_eq!(first.err().map(|bytes| bytes.len()), Some(4096));
        assert!(way.why_not().unwrap().contains("permission denied"), "{:?}", way.why_not());
        let next = way.append(block(), |_| panic!("it was refused")).unwrap();
        assert_eq!(next.err().map(|bytes| bytes.len()), Some(4096));
    }

    #[test]
    fn an_append_that_is_refused_after_others_were_taken_has_failed() {
        let way = WriteMode::default();
        assert_eq!(way.append(block(), |_| Ok(8192)).unwrap().ok(), Some(8192));
        let failed = way.append(block(), refuse).err().unwrap();
        assert_eq!(failed.kind(), ErrorKind::PermissionDenied);
        assert!(failed.to_string().contains("takes no more"), "{failed}");
        assert_eq!((way.why_not(), way.append(block(), |_| Ok(0)).unwrap().ok()), (None, Some(0)));
    }

    /// What the disk refused the kernel took.
    #[test]
    fn an_append_that_the_disk_refused_was_taken() {
        let way = WriteMode::default();
        let full = way.append(block(), |_| Err(Failure::Failed(io::Error::other("full"))));
        assert_eq!(full.err().unwrap().to_string(), "full");
        assert!(way.append(block(), refuse).is_err());
    }

    #[test]
    fn nothing_is_appended_twice() {
        let (way, appended) = (WriteMode::default(), Cell::new(0));
        for expected in 1..3 {
            way.append(block(), |_| Ok(appended.replace(appended.get() + 1))).unwrap().unwrap();
            assert_eq!(appended.get(), expected);
        }
    }

    #[test]
    fn writes_beside_the_first_wait_until_it_has_shown_the_way() {
        let (way, begin, others) = (WriteMode::default(), Barrier::new(4), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                way.append(block(), |bytes| {
                    begin.wait();
                    // The others have come by then, as a rule.
                    (0..10_000).for_each(|_| std::thread::yield_now());
                    assert_eq!(others.load(Ordering::Relaxed), 0);
                    refuse(bytes)
                })
            });
            for _ in 0..3 {
                scope.spawn(|| {
                    begin.wait();
                    let other = way.append(block(), |_| panic!("the first was refused"));
                    assert!(other.unwrap().is_err());
                    others.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
    }
}
