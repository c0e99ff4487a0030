//! A repair of the database while a follower is open.

use crate::support::*;
use esker_lsm::inspect::Inspector;
use esker_lsm::inspect::repair::{MissingLogPolicy, RepairReport};
use esker_lsm::{Db, Env};
use esker_storage::Storage;
use std::sync::Arc;

/// A database whose writer has died, and a follower of it.
struct World {
    machine: Arc<Machine>,
    /// Where the logs are, if not next to the tables.
    logs: Option<Arc<Machine>>,
    follower: Db,
}

impl World {
    /// `tables` is in tables, and `log` in a log only.
    fn new(has_logs_elsewhere: bool) -> World {
        let (machine, logs) = (Machine::new(1), has_logs_elsewhere.then(|| Machine::new(2)));
        let env = || env_of(&machine, logs.as_ref());
        let writer = Db::open_with(env(), settings()).unwrap();
        let keyspace = writer.default_keyspace();
        keyspace.put("table", "1").unwrap();
        writer.flush().unwrap();
        (0..20_u8).for_each(|key| keyspace.put([key], "only in the log").unwrap());
        let follower = Db::open_follower_with(env(), settings(), None).unwrap();
        assert_eq!(Mirror::of(&follower), Mirror::of(&writer));
        machine.kill_writer();
        logs.iter().for_each(|logs| logs.kill_writer());
        drop(writer);
        World { machine, logs, follower }
    }

    fn logs(&self) -> &Arc<Machine> {
        self.logs.as_ref().unwrap_or(&self.machine)
    }

    /// Flips a bit in each file with this ending.
    fn damage(&self, machine: &Machine, ending: &str, at: u64) {
        let names = machine.disk().files().into_iter().filter(|name| name.ends_with(ending));
        let damaged = names.map(|name| machine.disk().bit_flip(&name, at, 1)).count();
        assert!(damaged > 0);
    }

    fn repair(&self) -> RepairReport {
        let [tables, logs] =
            [&self.machine, self.logs()].map(|it| -> Arc<dyn Storage> { it.clone() });
        let inspector = match self.logs {
            Some(_) => Inspector::of(tables, logs),
            None => Inspector::of(tables.clone(), tables),
        };
        inspector.repair(MissingLogPolicy::Refuse).unwrap()
    }

    /// Checks that the follower begins anew with what the repair has kept, before and after the next process opens it.
    fn check(&self) {
        let snapshot = self.follower.snapshot();
        let before = Mirror::at(&self.follower, &snapshot);
        assert!(self.follower.catch_up().unwrap().began_anew);
        assert_eq!(self.follower.follower_stats().unwrap().new_beginnings, 1);
        let shown = Mirror::of(&self.follower);
        assert!(!self.follower.catch_up().unwrap().began_anew);
        let env = env_of(&self.machine, self.logs.as_ref());
        let writer = Db::open_with(env, settings()).unwrap();
        assert_eq!(shown, Mirror::of(&writer));
        writer.default_keyspace().put("after", "1").unwrap();
        assert!(self.follower.catch_up().unwrap().began_anew);
        assert_eq!(Mirror::of(&self.follower), Mirror::of(&writer));
        assert_eq!(Mirror::at(&self.follower, &snapshot), before);
    }
}

fn env_of(machine: &Arc<Machine>, logs: Option<&Arc<Machine>>) -> Env {
    let env = crate::support::env_of(machine.clone());
    match logs {
        Some(logs) => env.log_storage(logs.clone()),
        None => env,
    }
}

#[test]
fn a_repair_that_cuts_a_log_is_noticed() {
    for has_logs_elsewhere in [false, true] {
        let world = World::new(has_logs_elsewhere);
        world.damage(world.logs(), ".log", 600);
        let repaired = world.repair();
        assert!(!repaired.cut_logs.is_empty(), "{repaired:?}");
        world.check();
        let key = world.follower.default_keyspace().get([19]).unwrap();
        assert_eq!(key, None, "it was behind the damage");
    }
}

#[test]
fn a_repair_that_rebuilds_the_manifest_is_noticed() {
    for has_logs_elsewhere in [false, true] {
        let world = World::new(has_logs_elsewhere);
        for name in world.machine.disk().files() {
            if name.ends_with(".manifest") || name == "CURRENT" {
                world.machine.disk().remove(&name).unwrap();
            }
        }
        world.follower.catch_up().unwrap_err();
        world.repair();
        world.check();
    }
}

/// Nothing was lost, so nothing begins anew.
#[test]
fn a_repair_that_finds_nothing_is_no_new_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Db::open(dir.path(), settings()).unwrap();
    writer.default_keyspace().put("a", "1").unwrap();
    let follower = Db::open_follower(dir.path(), settings(), None).unwrap();
    writer.close().unwrap();
    Inspector::open(dir.path(), None).unwrap().repair(MissingLogPolicy::Refuse).unwrap();
    assert!(!follower.catch_up().unwrap().began_anew);
    assert_eq!(follower.default_keyspace().get("a").unwrap().as_deref(), Some(&b"1"[..]));
}
