//! Which process an object belongs to, checked with one load.
//!
//! A forked child has a copy of everything that its parent had open: locks, files, counters, but no
//! threads. It must not use any of it. A system call on every put would cost a tenth of the put, so
//! the kernel is asked to mark the child: one page is emptied in the child of a fork
//! (`MADV_WIPEONFORK`). The page holds the number of the process in a line of forks, so a child that
//! opens objects of its own has them distinguished from its parent's. Where the kernel can't empty a page, the
//! process's id is compared.

use std::sync::atomic::{AtomicU64, Ordering};

/// The process that made an object.
#[derive(Clone, Copy, Debug)]
pub struct OwnerProcess {
    /// The page's number, or the process's id if there is no page.
    number: u64,
    page: Option<&'static AtomicU64>,
}

/// How many processes in a line of forks have had a number. Copied by a fork, unlike the page.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

impl OwnerProcess {
    /// The calling process.
    pub fn current() -> Self {
        OwnerProcess::of(page())
    }

    fn of(page: Option<&'static AtomicU64>) -> Self {
        let number = match page {
            Some(page) => number_in(page),
            None => std::process::id().into(),
        };
        OwnerProcess { number, page }
    }

    /// Whether the calling process is this one, rather than a forked child of it.
    #[inline]
    pub fn is_current(&self) -> bool {
        match self.page {
            // Only a fork changes the number, and a fork orders what comes after it.
            Some(page) => page.load(Ordering::Relaxed) == self.number,
            None => self.number == u64::from(std::process::id()),
        }
    }
}

/// The process's number. A process that has none yet gives itself the next.
fn number_in(page: &AtomicU64) -> u64 {
    match page.load(Ordering::Relaxed) {
        0 => {
            let next = NUMBERS.fetch_add(1, Ordering::Relaxed) + 1;
            let set = page.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
            set.map_or_else(|set_by_another_thread| set_by_another_thread, |_| next)
        }
        number => number,
    }
}

/// The one page that a fork empties. It is never unmapped.
#[cfg(target_os = "linux")]
fn page() -> Option<&'static AtomicU64> {
    use std::sync::OnceLock;
    static PAGE: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
    *PAGE.get_or_init(map_page)
}

#[cfg(not(target_os = "linux"))]
fn page() -> Option<&'static AtomicU64> {
    None
}

#[cfg(target_os = "linux")]
fn map_page() -> Option<&'static AtomicU64> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    let bytes = rustix::param::page_size();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping at a place of the kernel's choice touches no other memory.
    let mapped =
        unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: the range is the mapping just made, which nobody uses yet.
    if unsafe { madvise(mapped, bytes, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: as above; the mapping is not used after this.
        let _ = unsafe { munmap(mapped, bytes) };
        return None;
    }
    // SAFETY: the page is aligned, zeroed, and mapped for as long as the process lives; it is only
    // ever used as this atomic. The kernel empties it in a child before the child runs.
    Some(unsafe { &*mapped.cast::<AtomicU64>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_keeps_its_number() {
        let (first, second) = (OwnerProcess::current(), OwnerProcess::current());
        assert!(first.is_current() && second.is_current());
        assert_eq!(first.number, second.number);
        assert!(OwnerProcess::of(None).is_current());
    }

    #[test]
    fn the_emptied_page_of_a_child_gets_a_number_of_its_own() {
        // What the kernel does in a child, done by hand.
        let page: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
        let parents = OwnerProcess::of(Some(page));
        page.store(0, Ordering::Relaxed);
        assert!(!parents.is_current());
        let childs = OwnerProcess::of(Some(page));
        assert!(childs.is_current() && !parents.is_current());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_forked_child_is_another_process() {
        let owner = OwnerProcess::current();
        // SAFETY: the child calls only `_exit` after two loads.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = i32::from(owner.is_current());
            // SAFETY: it ends the child without running anything that the parent registered.
            unsafe { libc::_exit(code) };
        }
        let mut status = -1;
        // SAFETY: `status` lives through the call, and the child is ours.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0, "the child takes itself for its parent");
        assert!(owner.is_current());
    }
}
