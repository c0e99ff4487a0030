//! Processes many items concurrently, on threads that the caller passes in.

use esker_base::{Background, Priority};
use parking_lot::Mutex;
use std::sync::Arc;

/// More threads than this would only wait for each other's memory.
const HELPERS: usize = 7;

/// How many threads may help the one that opens a database.
pub(crate) fn helpers() -> usize {
    std::thread::available_parallelism().map_or(0, |many| many.get() - 1).min(HELPERS)
}

/// Whether there are any.
pub(crate) fn has_threads(background: &dyn Background) -> bool {
    let thread = background.spawn("esker-recover", Priority::Normal, Box::new(|| {}));
    thread.ok().flatten().is_some_and(|thread| thread.join())
}

/// Does `work` on every item and returns the results in the items' order. The calling thread takes
/// part, `helpers` of `background` in addition, at most; without threads it does everything.
pub(crate) fn for_each<T, R, W>(
    background: &dyn Background,
    helpers: usize,
    items: Vec<T>,
    work: W,
) -> Vec<R>
where
    T: Send + 'static,
    R: Send + 'static,
    W: Fn(T) -> R + Send + Sync + 'static,
{
    let many = items.len();
    let waiting = Arc::new(Mutex::new(items.into_iter().enumerate()));
    let done = Arc::new(Mutex::new(Vec::with_capacity(many)));
    let work = Arc::new(work);
    let body = || {
        let (waiting, done, work) = (waiting.clone(), done.clone(), work.clone());
        move || {
            loop {
                let next = waiting.lock().next();
                let Some((number, item)) = next else { break };
                let result = work(item);
                done.lock().push((number, result));
            }
        }
    };
    let spawn = |_| {
        // One that can't be had is no loss: the others do its share.
        background.spawn("esker-recover", Priority::Normal, Box::new(body())).ok().flatten()
    };
    let threads: Vec<_> = (0..helpers.min(many.saturating_sub(1))).filter_map(spawn).collect();
    body()();
    let sound = threads.into_iter().map(|thread| thread.join()).fold(true, |all, one| all & one);
    assert!(sound, "a thread of the recovery has panicked");
    let mut done = std::mem::take(&mut *done.lock());
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Threads;
    use esker_base::background::Stepped;

    #[test]
    fn whether_there_are_threads_is_found_by_asking_for_one() {
        assert!(has_threads(&Threads));
        assert!(!has_threads(&Stepped));
    }

    #[test]
    fn results_come_in_the_order_of_their_items_with_threads_and_without() {
        let expected: Vec<u64> = (0..100).map(|number| number * number).collect();
        let square = |number: u64| number * number;
        assert_eq!(for_each(&Threads, 3, (0..100).collect(), square), expected);
        assert_eq!(for_each(&Stepped, 3, (0..100).collect(), square), expected);
        assert_eq!(for_each(&Threads, 3, Vec::new(), square), Vec::<u64>::new());
    }
}
