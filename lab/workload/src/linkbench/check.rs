//! Whether every count is the number of visible links, and every list shows just those.

use super::rows::{Count, Keyspaces, LIST_KEY_BYTES, Link};
use crate::Differences;
use crate::groups::{Groups, Member, next_prefix};
use esker_api::Transactional;
use esker_base::Result;

/// Compares links, lists and counts of every node and type in `store`. No client may write meanwhile.
/// It holds the links of one node at a time.
pub fn check(store: &dyn Transactional) -> Result<Differences> {
    let keyspaces = Keyspaces::of(store)?;
    let groups = |keyspace| Groups::new(store, keyspace, LIST_KEY_BYTES);
    let mut links = groups(keyspaces.links)?;
    let mut lists = groups(keyspaces.links_by_time)?;
    let mut counts = groups(keyspaces.counts)?;
    let mut found = Differences::default();
    while let Some(prefix) = next_prefix(&[&links, &lists, &counts]) {
        let visible = visible(&prefix, links.take(&prefix)?)?;
        let counted = match counts.take(&prefix)?.first() {
            Some((_, value)) => Count::decode(&prefix, value)?.count,
            None => 0,
        };
        let node = || name(&prefix);
        found.expect(visible.len() as u64, counted, || format!("the count of {}", node()));
        let listed = lists.take(&prefix)?;
        if listed != visible {
            let (there, of) = (listed.len(), visible.len());
            found.add(format!(
                "the list of {}: its {there} links are not the {of} visible ones, newest first",
                node()
            ));
        }
    }
    Ok(found)
}

/// What the list must hold for these links.
fn visible(prefix: &[u8], links: Vec<Member>) -> Result<Vec<Member>> {
    let mut visible = Vec::new();
    for (id2, value) in links {
        let link = Link::decode(prefix, &value)?;
        if link.visible {
            let mut listed = Vec::new();
            link.encode_listed(&mut listed);
            visible.push(([&(!link.time).to_be_bytes()[..], &id2].concat(), listed));
        }
    }
    visible.sort_unstable();
    Ok(visible)
}

fn name(prefix: &[u8]) -> String {
    let number =
        |bytes: &[u8]| bytes.iter().fold(0u64, |number, &byte| (number << 8) | u64::from(byte));
    format!("node {}, type {}", number(&prefix[..8]), number(&prefix[8..]))
}
