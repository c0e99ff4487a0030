//! Diffie-Hellman for hosts that prove who they are: milliseconds for each step, which a reactor would keep all others waiting
//! for. So a thread of its own computes, for all reactors, one step at a time.
//!
//! A connection has one step here at most; that of one that is gone is not computed.

use crate::dh_step::Step;
use crate::reactor_message::{ConnectionId, Message};
use crate::workers::Workers;
use esker_base::{Background, Result};
use esker_uring::Sender;
use std::sync::Weak;

/// See the file's head.
pub(crate) struct DhWorker {
    workers: Workers<Job>,
}

struct Job {
    step: Step,
    to: Sender<Message>,
    connection: ConnectionId,
    slot: u16,
    /// Gone with the connection.
    lives: Weak<()>,
}

impl DhWorker {
    pub(crate) fn start(background: &dyn Background) -> Result<Self> {
        let run = |jobs: &mut Vec<Job>| jobs.drain(..).for_each(Job::run);
        Ok(DhWorker { workers: Workers::start(background, "esker-proofs", 1, run)? })
    }

    /// Computes `step`, and notifies the command in `slot` of `connection`.
    pub(crate) fn submit(
        &self,
        step: Step,
        to: Sender<Message>,
        connection: ConnectionId,
        slot: u16,
        lives: Weak<()>,
    ) {
        self.workers.submit(0, Job { step, to, connection, slot, lives });
    }
}

impl Job {
    fn run(self) {
        let Job { step, to, connection, slot, lives } = self;
        if lives.strong_count() == 0 {
            return;
        }
        // A reactor that is gone has no connection to tell.
        let _ = to.send(Message::Computed { connection, slot, computed: step.compute() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Threads;
    use esker_nvme::auth::Group;
    use esker_uring::{Reactor, mailbox};
    use std::sync::Arc;

    #[test]
    fn a_step_of_a_connection_that_is_gone_is_not_computed() {
        let (to, answers) = mailbox(&Reactor::new(1, &Threads).unwrap());
        let (stays, goes) = (Arc::new(()), Arc::new(()));
        let job = |connection, lives: &Arc<()>| {
            let step =
                Step::Pair { group: Group::Null, private: Box::new([7; Group::PRIVATE_BYTES]) };
            Job { step, to: to.clone(), connection, slot: 0, lives: Arc::downgrade(lives) }
        };
        let jobs = [job(1, &stays), job(2, &goes), job(3, &stays)];
        drop(goes);
        jobs.into_iter().for_each(Job::run);
        let told = std::iter::from_fn(|| match answers.take()? {
            Message::Computed { connection, .. } => Some(connection),
            other => panic!("{other:?}"),
        });
        assert_eq!(told.collect::<Vec<_>>(), [1, 3]);
    }
}
