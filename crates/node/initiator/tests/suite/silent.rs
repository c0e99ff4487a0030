//! A namespace that keeps what it is asked, and answers nothing until the test says so.

use esker_target::{Answer, Description, Namespace, Reply, Request};
use std::sync::{Arc, Mutex};

pub struct Silent {
    description: Description,
    replies: Mutex<Vec<Reply>>,
}

impl Silent {
    pub fn of_keys() -> Arc<Self> {
        Self::new(Description::Keys { capacity_bytes: 1 << 30, value_bytes_max: 1 << 20 })
    }

    pub fn of_blocks() -> Arc<Self> {
        Self::new(Description::Blocks { bytes: 64 << 20, block_bytes_log2: 12 })
    }

    fn new(description: Description) -> Arc<Self> {
        Arc::new(Silent { description, replies: Mutex::default() })
    }

    /// How many requests it has.
    pub fn count(&self) -> usize {
        self.replies.lock().unwrap().len()
    }

    pub fn answer_all(&self) {
        self.replies.lock().unwrap().drain(..).for_each(|reply| reply.send(Answer::Done));
    }
}

impl Namespace for Silent {
    fn guid(&self) -> [u8; 16] {
        [9; 16]
    }
    fn description(&self) -> Description {
        self.description
    }
    fn submit(&self, _request: Request, reply: Reply) {
        self.replies.lock().unwrap().push(reply);
    }
}
