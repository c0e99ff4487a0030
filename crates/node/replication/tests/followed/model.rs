//! Random writes, flushes, restarts and cut connections: a follower ends up with what the primary has.

use crate::proxy::{Harm, Proxy};
use crate::support::{Place, expect_same, follow, serve};
use esker_lsm::{Db, KeyspaceSettings};
use esker_replication::{Follower, Primary};
use proptest::prelude::*;
use std::time::Duration;

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8, u16),
    Delete(u8, u8),
    DeleteRange(u8, u8, u8),
    Merge(u8, u8),
    Expiring(u8, u8),
    Batch(u8, u8, u16),
    Ingest(u8, u8),
    Create(u8),
    Drop(u8),
    Flush,
    Compact,
    RestartPrimary,
    RestartFollower,
    Compare,
}

fn step() -> impl Strategy<Value = Step> {
    let keyspace = 0..3_u8;
    prop_oneof![
        8 => (keyspace.clone(), any::<u8>(), 0..3_000_u16).prop_map(|(k, key, n)| Step::Put(k, key, n)),
        3 => (keyspace.clone(), any::<u8>()).prop_map(|(k, key)| Step::Delete(k, key)),
        2 => (keyspace.clone(), any::<u8>(), 1..40_u8).prop_map(|(k, from, n)| Step::DeleteRange(k, from, n)),
        3 => (keyspace.clone(), any::<u8>()).prop_map(|(k, key)| Step::Merge(k, key)),
        1 => (keyspace.clone(), any::<u8>()).prop_map(|(k, key)| Step::Expiring(k, key)),
        3 => (keyspace.clone(), 1..90_u8, 0..1_500_u16).prop_map(|(k, n, bytes)| Step::Batch(k, n, bytes)),
        1 => (keyspace.clone(), 1..200_u8).prop_map(|(k, n)| Step::Ingest(k, n)),
        1 => keyspace.clone().prop_map(Step::Create),
        1 => keyspace.clone().prop_map(Step::Drop),
        1 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::RestartPrimary),
        1 => Just(Step::RestartFollower),
        2 => Just(Step::Compare),
    ]
}

struct World {
    db: Option<Db>,
    primary: Option<Primary>,
    follower: Option<Follower>,
    proxy: Option<Proxy>,
    cut: u64,
    /// Last, as the others use it.
    place: Place,
}

impl World {
    fn start(cut: u64) -> World {
        let place = Place::new();
        let db = Some(place.db());
        let mut world = World { place, db, primary: None, follower: None, proxy: None, cut };
        world.follow();
        world
    }

    fn follow(&mut self) {
        (self.follower, self.proxy) = (None, None);
        let primary = self.primary.get_or_insert_with(|| serve(self.db.as_ref().unwrap()));
        let cut = self.cut;
        // Longer and longer connections, so that it comes through in the end.
        let fault = move |n: u64| if cut == 0 { Harm::None } else { Harm::Cut(cut << n.min(30)) };
        let proxy = Proxy::to(primary.address(), Box::new(fault));
        self.follower = Some(follow(&self.place.dir("copy"), proxy.address));
        self.proxy = Some(proxy);
    }

    fn name(keyspace: u8) -> String {
        format!("keyspace-{keyspace}")
    }

    fn run(&mut self, step: &Step) {
        let db = self.db.clone().unwrap();
        let named = |keyspace: u8| db.open_keyspace(&Self::name(keyspace));
        let number = |key: u8| [b'n', key];
        match *step {
            Step::Put(keyspace, key, bytes) => {
                let _ = named(keyspace).map(|it| it.put([key], vec![key; bytes.into()]).unwrap());
            }
            Step::Delete(keyspace, key) => {
                let _ = named(keyspace).map(|it| it.delete([key]).unwrap());
            }
            Step::DeleteRange(keyspace, from, count) => {
                let end = from.saturating_add(count);
                let _ = named(keyspace).map(|it| db.delete_range(&it, [from]..=[end]).unwrap());
            }
            Step::Merge(keyspace, key) => {
                let _ =
                    named(keyspace).map(|it| it.merge(number(key), 3_i64.to_le_bytes()).unwrap());
            }
            Step::Expiring(keyspace, key) => {
                let hour = Duration::from_secs(3_600);
                let _ = named(keyspace).map(|it| it.put_with_ttl([key], "later", hour).unwrap());
            }
            Step::Batch(keyspace, count, bytes) => {
                let Ok(found) = named(keyspace) else { return };
                let mut batch = db.batch();
                (0..count).for_each(|key| batch.put(&found, [key], vec![count; bytes.into()]));
                batch.delete(&db.default_keyspace(), [count]);
                db.write(&batch).unwrap();
            }
            Step::Ingest(keyspace, count) => {
                let Ok(found) = named(keyspace) else { return };
                db.ingest(&found, (0..count).map(|key| ([b'i', key], [key; 30]))).unwrap();
            }
            Step::Create(keyspace) => {
                let settings = KeyspaceSettings::default().merge("add_i64");
                db.keyspace(&Self::name(keyspace), settings).unwrap();
            }
            Step::Drop(keyspace) => {
                let _ = named(keyspace).map(|it| db.drop_keyspace(&it).unwrap());
            }
            Step::Flush => db.flush().unwrap(),
            Step::Compact => db.compact().unwrap(),
            Step::RestartPrimary => {
                (self.follower, self.proxy, self.primary) = (None, None, None);
                self.db = None;
                db.close().unwrap();
                self.db = Some(self.place.db());
                self.follow();
            }
            Step::RestartFollower => self.follow(),
            Step::Compare => expect_same(self.follower.as_ref().unwrap(), &db),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn a_follower_has_what_the_primary_has(
        cut in prop_oneof![Just(0_u64), 50..5_000_u64],
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut world = World::start(cut);
        world.run(&Step::Create(0));
        steps.iter().for_each(|step| world.run(step));
        world.run(&Step::Compare);
        let copy = world.follower.take().unwrap().promote().unwrap();
        prop_assert_eq!(crate::support::contents(&copy), crate::support::contents(world.db.as_ref().unwrap()));
    }
}
