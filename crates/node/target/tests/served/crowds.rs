//! Many connections that say nothing more: they leave space for others.

use crate::controllers::{DISCOVERY, HandClock};
use crate::wire::Wire;
use crate::{Access, HOST, NODE, allow_connections, start_reactors, subsystem};
use esker_base::Clock;
use esker_target::Target;
use esker_target::limits::{
    CONNECTIONS, DISCOVERY_CONTROLLERS, DISCOVERY_KEEP_ALIVE, SILENCE_TIME,
};
use std::sync::Arc;

/// A target with one reactor, and its clock.
fn target() -> (Target, Arc<HandClock>) {
    let clock = Arc::new(HandClock::default());
    (start_reactors(1, subsystem(Access::Anyone), clock.clone()), clock)
}

/// A connection's admin queue with a keep-alive time, if it is let in.
fn admin(target: &Target, node: &str, keep_alive_ms: u32) -> Option<Wire> {
    let mut wire = Wire::try_open(target.address())?;
    (wire.connect(node, HOST, 0xffff, 0, 31, keep_alive_ms).status == 0).then_some(wire)
}

/// None, and the longest there is: either way a silent host is never dropped for its silence alone.
const KEEP_ALIVES_MS: [u32; 2] = [0, u32::MAX];

#[test]
fn discovery_leaves_most_connections_to_others_and_ends_after_two_silent_minutes() {
    if !allow_connections() {
        return;
    }
    for keep_alive_ms in KEEP_ALIVES_MS {
        let (target, clock) = target();
        let admin = |node| admin(&target, node, keep_alive_ms);
        let strangers: Vec<_> =
            (0..DISCOVERY_CONTROLLERS).map(|_| admin(DISCOVERY).unwrap()).collect();
        assert!(admin(DISCOVERY).is_none(), "one more");
        assert!(admin(NODE).is_some(), "there is room for others");
        clock.sleep(DISCOVERY_KEEP_ALIVE);
        strangers.into_iter().for_each(|mut stranger| stranger.ends());
        assert!(admin(DISCOVERY).is_some());
    }
}

#[test]
fn of_too_many_connections_the_longest_silent_makes_room() {
    if !allow_connections() {
        return;
    }
    for keep_alive_ms in KEEP_ALIVES_MS {
        let (target, clock) = target();
        let admin = || admin(&target, NODE, keep_alive_ms);
        let mut crowd: Vec<_> = (0..CONNECTIONS).map(|_| admin().unwrap()).collect();
        assert!(admin().is_none(), "they were heard just now");
        // What was heard since the last tick counts from the next one.
        let late = (0..10).find_map(|_| {
            clock.sleep(SILENCE_TIME);
            admin()
        });
        assert!(late.is_some(), "one that was silent has gone, KATO {keep_alive_ms}");
        let gone = target.totals().connections_closed;
        assert_eq!(gone, 1, "and no others");
        crowd.last_mut().unwrap().enable();
    }
}
