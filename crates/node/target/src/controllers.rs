//! The controllers there are: one for each host's association with a subsystem. Taken when queues connect and go.

use crate::controller::Controller;
use crate::limits::DISCOVERY_CONTROLLERS;
use esker_nvme::command::fabrics::ANY_CONTROLLER;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Registry {
    controllers: Mutex<Controllers>,
}

#[derive(Default)]
struct Controllers {
    by_id: HashMap<u16, Arc<Controller>>,
    of_discovery: usize,
    last: u16,
}

/// Controllers of a target at one time, at most half of the ids. Each has a connection, and the connections of 16 reactors
/// come to their limit before.
const CONTROLLERS: usize = 32 << 10;

impl Registry {
    /// Adds the controller that `make` makes from its id, or `None` if there are too many.
    pub(crate) fn add(
        &self,
        is_discovery: bool,
        make: impl FnOnce(u16) -> Controller,
    ) -> Option<Arc<Controller>> {
        let mut controllers = self.controllers.lock();
        if controllers.by_id.len() >= CONTROLLERS
            || is_discovery && controllers.of_discovery >= DISCOVERY_CONTROLLERS
        {
            return None;
        }
        controllers.of_discovery += usize::from(is_discovery);
        // Ids go round, so that a late queue of one that is gone does not meet another by chance.
        let id = loop {
            controllers.last = controllers.last.wrapping_add(1);
            let id = controllers.last;
            if id != 0 && id < ANY_CONTROLLER - 16 && !controllers.by_id.contains_key(&id) {
                break id;
            }
        };
        let controller = Arc::new(make(id));
        controllers.by_id.insert(id, controller.clone());
        Some(controller)
    }

    pub(crate) fn get(&self, id: u16) -> Option<Arc<Controller>> {
        self.controllers.lock().by_id.get(&id).cloned()
    }

    pub(crate) fn remove(&self, id: u16) {
        let mut controllers = self.controllers.lock();
        if let Some(gone) = controllers.by_id.remove(&id) {
            controllers.of_discovery -= usize::from(gone.is_discovery());
        }
    }
}
