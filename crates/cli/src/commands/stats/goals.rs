//! Keyspaces and their space-amplification limits: a part of `esker stats`.

use crate::units::bytes;
use esker::stats::SpaceAmpStatus;
use serde_json::{Value as Json, json};

/// `None` if the ceiling is not known.
fn above_bytes(goal: &SpaceAmpStatus) -> Option<u64> {
    Some((goal.bytes as f64 - goal.ceiling_bytes?).max(0.0) as u64)
}

/// A line for each goal; nothing if there is none.
pub fn text(goals: &[SpaceAmpStatus]) -> String {
    let mut out = String::new();
    for goal in goals {
        let above = match above_bytes(goal) {
            None | Some(0) => String::new(),
            Some(above) => format!(", {} above it", bytes(above)),
        };
        let unknown = || "what is not known: its segment size was not recorded".to_owned();
        let ceiling = goal.ceiling_bytes.map_or_else(unknown, |ceiling| bytes(ceiling as u64));
        let now = bytes(goal.bytes);
        out.push_str(&format!("  {:<27}{now} of {ceiling}{above}\n", goal.keyspace));
    }
    if out.is_empty() { out } else { format!("Space that a goal allows (goals)\n{out}") }
}

pub fn json(goals: &[SpaceAmpStatus]) -> Json {
    let figures = |goal: &SpaceAmpStatus| {
        json!({
            "amp": f64::from(goal.amp.hundredths()) / 100.0,
            "live_bytes": goal.live_bytes as u64,
            "pinned_bytes": goal.pinned_bytes as u64,
            "ceiling_bytes": goal.ceiling_bytes.map(|ceiling| ceiling as u64),
            "table_bytes": goal.bytes,
            "above_bytes": above_bytes(goal),
        })
    };
    Json::Object(goals.iter().map(|goal| (goal.keyspace.clone(), figures(goal))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(bytes: u64) -> SpaceAmpStatus {
        let mut goal = SpaceAmpStatus::new("default", esker::options::Ratio::of_hundredths(120));
        (goal.live_bytes, goal.pinned_bytes) = (1000.0, 50.0);
        (goal.ceiling_bytes, goal.bytes) = (Some(1650.0), bytes);
        goal
    }

    #[test]
    fn what_is_above_a_ceiling_is_told_and_what_is_below_is_not() {
        assert_eq!(json(&[goal(1600)])["default"]["above_bytes"], 0);
        assert_eq!(json(&[goal(1700)])["default"]["above_bytes"], 50);
        assert!(!text(&[goal(1600)]).contains("above"));
        assert!(text(&[goal(1700)]).contains("50 B above it"), "{}", text(&[goal(1700)]));
        assert_eq!(text(&[]), "");
    }

    #[test]
    fn of_a_ceiling_that_is_not_known_nothing_is_told() {
        let mut unknown = [goal(1700)];
        unknown[0].ceiling_bytes = None;
        assert_eq!(json(&unknown)["default"]["ceiling_bytes"], Json::Null);
        assert_eq!(json(&unknown)["default"]["above_bytes"], Json::Null);
        assert!(text(&unknown).contains(" of what is not known"), "{}", text(&unknown));
    }
}
