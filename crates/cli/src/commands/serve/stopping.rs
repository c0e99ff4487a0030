//! What a node that stops says of followers that lag.

use crate::units::counted;
use esker_replication::{FollowerInfo, StopNotice};

/// A line of the followers of namespace `number`.
pub fn line(number: usize, notice: &StopNotice) -> String {
    let later = "; they get the rest once the node serves again";
    let (what, followers, rest) = match notice {
        StopNotice::Waits(followers) => ("waiting for followers", followers, ""),
        StopNotice::Gone(followers) => ("followers that have left", followers, later),
        StopNotice::GivesUp(followers) => ("no longer waiting for followers", followers, later),
        other => return format!("namespace {number}: {other:?}"),
    };
    let named: Vec<_> = followers.iter().map(named).collect();
    format!("namespace {number}: {what}: {}{rest}", named.join(", "))
}

fn named(follower: &FollowerInfo) -> String {
    let FollowerInfo { name, address, behind, behind_time, .. } = follower;
    let writes = counted(*behind, "write");
    format!("{name:?} ({address}), {writes} behind for {:.1} s", behind_time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn followers_are_named_with_how_far_and_how_long_they_are_behind() {
        let follower = |name: &str, behind, millis| {
            let mut follower = FollowerInfo::default();
            (follower.name, follower.address) = (name.into(), "10.0.0.2:5000".into());
            (follower.behind, follower.behind_time) = (behind, Duration::from_millis(millis));
            follower
        };
        let followers = vec![follower("a", 1, 40), follower("b", 1_200, 61_500)];
        let named = "\"a\" (10.0.0.2:5000), 1 write behind for 0.0 s, \
                     \"b\" (10.0.0.2:5000), 1,200 writes behind for 61.5 s";
        assert_eq!(
            line(2, &StopNotice::Waits(followers.clone())),
            format!("namespace 2: waiting for followers: {named}")
        );
        assert_eq!(
            line(3, &StopNotice::Gone(followers.clone())),
            format!(
                "namespace 3: followers that have left: {named}; \
                 they get the rest once the node serves again"
            )
        );
        assert_eq!(
            line(1, &StopNotice::GivesUp(followers)),
            format!(
                "namespace 1: no longer waiting for followers: {named}; \
                 they get the rest once the node serves again"
            )
        );
    }
}
