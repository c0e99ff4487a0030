//! The engine, as the threads and the memory budget that databases share see it.

use super::steps::visit;
use crate::engine::Engine;
use crate::resources::lanes::{JobClass, Urgency};
use crate::resources::served::Served;
use esker_memtable::MemTable;
use std::sync::Arc;
use std::time::Duration;

impl Served for Engine {
    fn visit(&self, lane: JobClass, urgency: Urgency) -> bool {
        visit(self, lane, urgency)
    }

    fn sync_interval(&self) -> Option<Duration> {
        self.tree.sync_interval()
    }

    fn share_memory(&self) {
        Engine::share_memory(self);
    }

    fn flush_active(&self) {
        self.commit.lock_active().seal();
        self.share_memory();
        self.schedule.wake();
    }

    fn relief_bytes(&self) -> usize {
        let view = self.tree.view.pin();
        let has_grown = |memtable: &Arc<MemTable>| {
            let first = MemTable::first_room(memtable.whole_room().bytes as usize);
            memtable.entries() > 0 && memtable.room().bytes > first.bytes
        };
        let active = view.memtables.first().filter(|memtable| !memtable.is_sealed());
        active.filter(|memtable| has_grown(memtable)).map_or(0, |memtable| memtable.memory_bytes())
    }

    fn free_retired(&self) {
        let retired = std::mem::take(&mut self.schedule.jobs.lock().retired);
        if !retired.is_empty() {
            self.share_memory();
        }
    }
}
