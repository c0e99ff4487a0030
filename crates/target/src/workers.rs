//! Threads that do what would block a reactor.

use esker_base::background::Running;
use esker_base::{Background, Priority, Result};
use parking_lot::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// So many jobs are taken at once, at most, so that a store can write them together.
const JOBS_TOGETHER: usize = 64;

/// Workers, each with a queue of its own: jobs with the same number are done in their order.
pub(crate) struct Workers<J> {
    queues: Vec<Sender<J>>,
    /// Locked only when they are joined.
    threads: Mutex<Vec<Box<dyn Running>>>,
}

impl<J: Send + 'static> Workers<J> {
    /// Starts `count` threads that give jobs to `run`, as many at once as wait.
    pub(crate) fn start(
        background: &dyn Background,
        name: &str,
        count: usize,
        run: impl Fn(&mut Vec<J>) + Clone + Send + 'static,
    ) -> Result<Self> {
        let (mut queues, mut threads) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (sender, receiver) = channel();
            let run = run.clone();
            let body = Box::new(move || serve(&receiver, &run));
            let name = format!("{name} {number}");
            threads.extend(background.spawn(&name, Priority::Normal, body)?);
            queues.push(sender);
        }
        Ok(Workers { queues, threads: Mutex::new(threads) })
    }

    /// Hands a job to the worker of `number`.
    pub(crate) fn submit(&self, number: u64, job: J) {
        let worker = &self.queues[(number % self.queues.len() as u64) as usize];
        // Workers end only when this does; a job that is dropped answers for itself.
        let _ = worker.send(job);
    }
}

fn serve<J>(queue: &Receiver<J>, run: &impl Fn(&mut Vec<J>)) {
    let mut jobs = Vec::new();
    while let Ok(first) = queue.recv() {
        jobs.push(first);
        jobs.extend(queue.try_iter().take(JOBS_TOGETHER - 1));
        run(&mut jobs);
        jobs.clear();
    }
}

impl<J> Drop for Workers<J> {
    fn drop(&mut self) {
        self.queues.clear();
        for thread in self.threads.get_mut().drain(..) {
            thread.join();
        }
    }
}
