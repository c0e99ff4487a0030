//! Names of keyspaces that belong to the engine.
//!
//! They start with a control character, so no user can create or open such a keyspace.

use esker_base::KeyspaceId;

const RESERVED: char = '\u{1}';
const INDEX: &str = "index/";
const PREPARED: &str = "prepared";

/// Whether the keyspace called `name` belongs to the engine. Lists of keyspaces leave it out.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED)
}

/// The name of the keyspace with the records of prepared transactions.
pub(crate) fn prepared_keyspace() -> String {
    format!("{RESERVED}{PREPARED}")
}

/// The name of the keyspace of index `index` over `keyspace`.
pub(crate) fn index_keyspace(keyspace: KeyspaceId, index: &str) -> String {
    format!("{RESERVED}{INDEX}{}/{index}", keyspace.0)
}

/// The indexed keyspace and the name of the index whose keyspace is called `name`, if it is one's.
pub(crate) fn parse_index_keyspace(name: &str) -> Option<(KeyspaceId, &str)> {
    let rest = name.strip_prefix(RESERVED)?.strip_prefix(INDEX)?;
    let (keyspace, index) = rest.split_once('/')?;
    Some((KeyspaceId(keyspace.parse().ok()?), index))
}

/// The name by which statistics show the keyspace called `name`. `name_of` returns the names of others.
pub(crate) fn shown(name: &str, name_of: impl Fn(KeyspaceId) -> Option<String>) -> String {
    if let Some((rows, index)) = parse_index_keyspace(name) {
        let rows = name_of(rows).unwrap_or_else(|| format!("keyspace {}", rows.0));
        return format!("index {index} of {rows}");
    }
    match name.strip_prefix(RESERVED) {
        Some(PREPARED) => "prepared transactions".into(),
        Some(other) => other.into(),
        None => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_index_keyspaces_say_what_is_indexed() {
        let name = index_keyspace(KeyspaceId(7), "by/email");
        assert!(is_reserved(&name) && !is_reserved("index/7/by"));
        assert_eq!(parse_index_keyspace(&name), Some((KeyspaceId(7), "by/email")));
        assert_eq!(parse_index_keyspace("index/7/by"), None);
        let shown_with = |users: Option<&str>| shown(&name, |_| users.map(str::to_owned));
        assert_eq!(shown_with(Some("users")), "index by/email of users");
        assert_eq!(shown_with(None), "index by/email of keyspace 7");
    }

    #[test]
    fn no_shown_name_has_a_control_character() {
        for name in [prepared_keyspace(), "users".into(), "\u{1}later".into()] {
            let shown = shown(&name, |_| None);
            assert!(!shown.is_empty() && !shown.contains(char::is_control), "{shown:?}");
        }
        assert_eq!(shown("users", |_| None), "users");
    }
}
