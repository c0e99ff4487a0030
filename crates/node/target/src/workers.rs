//! Threads that do what would block a reactor.

use esker_base::background::Running;
use esker_base::{Background, Priority, Result};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// So many jobs are taken at once, at most, so that a store can write them together.
const JOBS_TOGETHER: usize = 64;

/// Workers, each with a queue of its own: jobs with the same number are done in their order.
pub(crate) struct Workers<J> {
    queues: Vec<Arc<Queue<J>>>,
    /// Locked only when they are joined.
    threads: Mutex<Vec<Box<dyn Running>>>,
}

/// A worker's jobs. Not a channel, out of which nothing can be taken back.
struct Queue<J> {
    waiting: Mutex<Waiting<J>>,
    comes: Condvar,
}

struct Waiting<J> {
    jobs: VecDeque<J>,
    /// Nothing more comes, or no thread takes it.
    has_ended: bool,
}

impl<J: Send + 'static> Workers<J> {
    /// Starts `count` threads that give jobs to `run`, as many at once as wait.
    pub(crate) fn start(
        background: &dyn Background,
        name: &str,
        count: usize,
        run: impl Fn(&mut Vec<J>) + Clone + Send + 'static,
    ) -> Result<Self> {
        // From the start, so that those that run end if one can't be started.
        let mut workers = Workers { queues: Vec::new(), threads: Mutex::new(Vec::new()) };
        for number in 0..count {
            let waiting = Mutex::new(Waiting { jobs: VecDeque::new(), has_ended: false });
            let queue = Arc::new(Queue { waiting, comes: Condvar::new() });
            let (worker, run) = (Worker(queue.clone()), run.clone());
            let body = Box::new(move || worker.serve(&run));
            let name = format!("{name} {number}");
            workers.queues.push(queue);
            let started = background.spawn(&name, Priority::Normal, body)?;
            workers.threads.get_mut().extend(started);
        }
        Ok(workers)
    }

    /// Hands a job to the worker of `number`.
    pub(crate) fn submit(&self, number: u64, job: J) {
        let queue = &self.queues[(number % self.queues.len() as u64) as usize];
        let mut waiting = queue.waiting.lock();
        if waiting.has_ended {
            // A job that is dropped answers for itself: not under the lock.
            drop(waiting);
            return drop(job);
        }
        waiting.jobs.push_back(job);
        drop(waiting);
        queue.comes.notify_one();
    }

    /// Takes back a job that its worker has not taken yet.
    pub(crate) fn withdraw(&self, is_it: impl Fn(&J) -> bool) -> Option<J> {
        self.queues.iter().find_map(|queue| {
            let mut waiting = queue.waiting.lock();
            let place = waiting.jobs.iter().position(&is_it)?;
            waiting.jobs.remove(place)
        })
    }
}

impl<J> Queue<J> {
    fn end(&self) {
        self.waiting.lock().has_ended = true;
        self.comes.notify_one();
    }
}

/// The end of a queue at which jobs are taken. When it is gone, for a panic say, jobs are dropped.
struct Worker<J>(Arc<Queue<J>>);

impl<J> Worker<J> {
    fn serve(&self, run: &impl Fn(&mut Vec<J>)) {
        let mut jobs = Vec::new();
        loop {
            self.take(&mut jobs);
            if jobs.is_empty() {
                return;
            }
            run(&mut jobs);
            jobs.clear();
        }
    }

    /// Waits for jobs, and takes those that there are: none when no more will come.
    fn take(&self, jobs: &mut Vec<J>) {
        let mut waiting = self.0.waiting.lock();
        while waiting.jobs.is_empty() && !waiting.has_ended {
            self.0.comes.wait(&mut waiting);
        }
        let count = waiting.jobs.len().min(JOBS_TOGETHER);
        jobs.extend(waiting.jobs.drain(..count));
    }
}

impl<J> Drop for Worker<J> {
    fn drop(&mut self) {
        self.0.end();
        let jobs = std::mem::take(&mut self.0.waiting.lock().jobs);
        drop(jobs);
    }
}

impl<J> Drop for Workers<J> {
    fn drop(&mut self) {
        self.queues.iter().for_each(|queue| queue.end());
        for thread in self.threads.get_mut().drain(..) {
            thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::background::Body;
    use esker_base::{Error, Threads};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A job that says when it is dropped.
    struct Job(u8, Sender<u8>);

    impl Drop for Job {
        fn drop(&mut self) {
            let _ = self.1.send(self.0);
        }
    }

    /// One worker, which says with what it begins, and ends it when it is notified how.
    fn workers(end: impl Fn() + Clone + Send + 'static) -> (Workers<Job>, Receiver<u8>) {
        let (begins, begun) = channel();
        let run = move |jobs: &mut Vec<Job>| {
            jobs.iter().for_each(|job| begins.send(job.0).unwrap());
            end();
        };
        (Workers::start(&Threads, "worker", 1, run).unwrap(), begun)
    }

    #[test]
    fn a_job_that_waits_can_be_withdrawn_and_one_that_was_begun_cannot() {
        let gate = Arc::new(Mutex::new(()));
        let (held, dropped) = (gate.clone(), channel());
        let (workers, begun) = workers(move || drop(held.lock()));
        let closed = gate.lock();
        workers.submit(7, Job(1, dropped.0.clone()));
        assert_eq!(begun.recv(), Ok(1));
        [2, 3].into_iter().for_each(|number| workers.submit(7, Job(number, dropped.0.clone())));
        assert!(workers.withdraw(|job| job.0 == 1).is_none());
        assert!(workers.withdraw(|job| job.0 == 2).is_some_and(|job| job.0 == 2));
        drop(closed);
        assert_eq!(begun.recv(), Ok(3), "the second is never begun");
    }

    #[test]
    fn jobs_of_a_worker_that_panicked_are_dropped() {
        let (dropped, drops) = channel();
        let (workers, _begun) = workers(|| std::panic::resume_unwind(Box::new(())));
        for number in 1..=3 {
            workers.submit(7, Job(number, dropped.clone()));
        }
        let mut numbers = [(); 3].map(|()| drops.recv().unwrap());
        numbers.sort();
        assert_eq!(numbers, [1, 2, 3]);
    }

    #[test]
    fn jobs_that_wait_when_workers_end_are_done() {
        let (dropped, _drops) = channel();
        let (workers, begun) = workers(|| ());
        (1..=3).for_each(|number| workers.submit(7, Job(number, dropped.clone())));
        drop(workers);
        assert_eq!(begun.iter().collect::<Vec<_>>(), [1, 2, 3]);
    }

    /// Starts so many threads and no more.
    struct Few(AtomicUsize);

    impl Background for Few {
        fn spawn(
            &self,
            name: &str,
            priority: Priority,
            body: Body,
        ) -> Result<Option<Box<dyn Running>>> {
            let left = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
            left.map_err(|_| Error::Closed)?;
            Threads.spawn(name, priority, body)
        }
    }

    #[test]
    fn workers_of_which_one_cannot_be_started_end() {
        let held = Arc::new(());
        let run = {
            let held = held.clone();
            move |_: &mut Vec<()>| drop(held.clone())
        };
        let started = Workers::start(&Few(AtomicUsize::new(2)), "worker", 3, run);
        assert!(started.is_err());
        assert_eq!(Arc::strong_count(&held), 1, "the two that ran have ended");
    }
}
