//! A namespace that answers when the test says so.

use crate::{start, subsystem};
use esker_target::{Access, Answer, Description, LongKeys, Namespace, Reply, Request, Target};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

const MIB: u32 = 1 << 20;

/// Keeps stores and retrieves, and answers when the test says so. All else is answered at once.
#[derive(Default)]
pub struct Held(Mutex<VecDeque<Reply>>);

impl Held {
    pub fn answer_one(&self, answer: Answer) {
        self.0.lock().unwrap().pop_front().expect("one is held").send(answer);
    }

    pub fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl Namespace for Held {
    fn guid(&self) -> [u8; 16] {
        [9; 16]
    }
    fn description(&self) -> Description {
        Description::Keys { capacity_bytes: 1 << 30, value_bytes_max: MIB }
    }
    fn submit(&self, request: Request, reply: Reply) {
        match request {
            Request::Store { .. } | Request::Retrieve { .. } => {
                self.0.lock().unwrap().push_back(reply);
            }
            _ => reply.send(Answer::Done),
        }
    }
}

pub fn holding(has_long_keys: bool) -> (Arc<Held>, Target) {
    let held = Arc::new(Held::default());
    let mut subsystem = subsystem(Access::Anyone);
    subsystem.namespaces[0] = match has_long_keys {
        true => Arc::new(LongKeys::new(held.clone())),
        false => held.clone(),
    };
    (held, start(subsystem))
}
