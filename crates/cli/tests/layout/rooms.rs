//! Which rooms of the engine, and of the files on flash, may use which.
//!
//! A room is a folder of a [`Building`], or a file in it. Its table is a list of what there is, so
//! that a new arrow is a decision and not an accident. No room may use one further down in the
//! table, so that no two rooms need each other.

use crate::source::code_of;

/// A folder of rooms.
pub struct Building {
    /// The folder.
    pub folder: &'static str,
    /// How code names what is in it.
    path: &'static str,
    /// The files that any room may use: they use none.
    leaves: &'static [&'static str],
    /// The rooms, the lowest first, with those that each may use.
    rooms: &'static [(&'static str, &'static [&'static str])],
}

/// All buildings.
pub const BUILDINGS: [Building; 2] = [
    Building {
        folder: "crates/engine/lsm/src",
        path: "crate::",
        leaves: &["limits", "parallel", "primitives", "reserved", "user_keys"],
        rooms: &LSM,
    },
    Building {
        folder: "crates/flash/src/storage",
        path: "crate::storage::",
        leaves: &[],
        rooms: &FLASH,
    },
];

const FLASH: [(&str, &[&str]); 8] = [
    ("lifetimes", &[]),
    ("format", &["lifetimes"]),
    ("chunks", &["format", "lifetimes"]),
    ("files", &["chunks", "format", "lifetimes"]),
    ("journal", &["chunks", "files", "format"]),
    ("allocation", &["chunks", "files", "format", "journal", "lifetimes"]),
    ("recovery", &["chunks", "format", "journal"]),
    ("fs", &["allocation", "chunks", "files", "format", "lifetimes"]),
];

const LSM: [(&str, &[&str]); 24] = [
    ("fold", &[]),
    ("resources", &[]),
    ("options", &["fold", "resources"]),
    ("version", &["fold", "options"]),
    ("stats", &["options", "version"]),
    ("manifest", &["fold", "options", "stats", "version"]),
    ("history", &["manifest"]),
    ("log", &["manifest", "options"]),
    ("write", &["log", "options", "version"]),
    ("output", &["fold", "options", "version"]),
    ("tree", &["fold", "log", "manifest", "options", "stats", "version"]),
    ("read", &["fold", "stats", "tree", "version"]),
    ("compaction", &["fold", "manifest", "options", "output", "read", "stats", "tree", "version"]),
    (
        "flush",
        &["compaction", "history", "log", "manifest", "output", "read", "stats", "tree", "version"],
    ),
    ("scheduler", &["compaction", "log", "resources", "version"]),
    ("index", &["read", "tree", "version", "write"]),
    (
        "engine",
        &[
            "compaction",
            "fold",
            "history",
            "index",
            "log",
            "options",
            "output",
            "resources",
            "scheduler",
            "stats",
            "tree",
            "version",
            "write",
        ],
    ),
    ("follow", &["engine", "log", "manifest", "stats", "version"]),
    ("feed", &["engine", "history", "log", "manifest", "options", "stats", "version"]),
    (
        "background",
        &[
            "compaction",
            "engine",
            "flush",
            "log",
            "manifest",
            "options",
            "resources",
            "scheduler",
            "stats",
            "tree",
            "version",
            "write",
        ],
    ),
    (
        "recovery",
        &[
            "background",
            "compaction",
            "engine",
            "feed",
            "fold",
            "follow",
            "history",
            "index",
            "log",
            "manifest",
            "options",
            "output",
            "resources",
            "scheduler",
            "stats",
            "tree",
            "version",
            "write",
        ],
    ),
    (
        "ingest",
        &[
            "background",
            "compaction",
            "engine",
            "index",
            "manifest",
            "options",
            "output",
            "stats",
            "tree",
            "version",
            "write",
        ],
    ),
    (
        "inspect",
        &["fold", "history", "log", "manifest", "options", "output", "recovery", "version"],
    ),
    (
        "db",
        &[
            "background",
            "compaction",
            "engine",
            "feed",
            "history",
            "index",
            "ingest",
            "log",
            "manifest",
            "options",
            "read",
            "recovery",
            "stats",
            "version",
        ],
    ),
];

/// The room of a path inside a building; `None` for its root.
fn room_of(inside: &str) -> Option<&str> {
    let first = inside.split('/').next()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (name != "lib" && name != "mod").then_some(name)
}

/// The modules in `path` that the code names, with the line.
fn used(code: &str, path: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, path) in code.match_indices(path) {
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + path.len()..];
        let mut depth = 0;
        let mut is_start = true;
        let mut name = String::new();
        for c in rest.chars() {
            match c {
                'a'..='z' | 'A'..='Z' | '_' | '0'..='9' if is_start => name.push(c),
                '{' => {
                    depth += 1;
                    is_start = depth == 1;
                }
                ',' | '}' if depth == 1 => {
                    found.push((line, std::mem::take(&mut name)));
                    is_start = true;
                    depth -= i32::from(c == '}');
                }
                '}' => depth -= 1,
                c if c.is_whitespace() && depth == 1 => {}
                _ if depth == 0 => break,
                _ => is_start = false,
            }
            if depth == 0 && c == '}' {
                break;
            }
        }
        found.push((line, name));
    }
    found.retain(|(_, name)| name.starts_with(|first: char| first.is_ascii_lowercase()));
    found
}

/// Uses of a room of `building` that its table does not allow. `text` is without tests.
pub fn strays(building: &Building, path: &str, text: &str) -> Vec<String> {
    let Building { rooms, leaves, .. } = building;
    let inside = path.strip_prefix(building.folder).and_then(|inside| inside.strip_prefix('/'));
    let Some(own) = inside.and_then(room_of) else { return Vec::new() };
    let allowed = match rooms.iter().find(|(room, _)| *room == own) {
        Some((_, allowed)) => *allowed,
        None if leaves.contains(&own) => &[],
        None => return vec![format!("{path}: the room {own} is not in the table of rooms")],
    };
    let is_stray = |name: &str| {
        name != own
            && !allowed.contains(&name)
            && (rooms.iter().any(|(room, _)| *room == name)
                || (leaves.contains(&name) && leaves.contains(&own)))
    };
    let found = used(&code_of(text), building.path).into_iter();
    let found = found.filter(|(_, name)| is_stray(name));
    found
        .map(|(line, name)| {
            format!("{path}:{line}: {own} uses {name}, which the table does not allow")
        })
        .collect()
}

/// Uses that a table allows although they point to the room itself or to one further down.
pub fn circles() -> Vec<String> {
    BUILDINGS.iter().flat_map(|building| circles_in(building.rooms)).collect()
}

fn circles_in(rooms: &[(&str, &[&str])]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, (room, allowed)) in rooms.iter().enumerate() {
        let is_above = |name: &&&str| rooms[..at].iter().any(|(above, _)| above == *name);
        let down = allowed.iter().filter(|name| !is_above(name));
        found.extend(down.map(|name| format!("the table lets {room} use {name}, further down")));
    }
    found
}

/// The rooms of the table that `paths` do not have.
pub fn missing(building: &Building, paths: &[String]) -> Vec<String> {
    let inside = |path: &'_ str| {
        let inside = path.strip_prefix(building.folder)?.strip_prefix('/')?;
        room_of(inside).map(str::to_owned)
    };
    let there: Vec<String> = paths.iter().filter_map(|path| inside(path)).collect();
    let rooms = building.rooms.iter().map(|(room, _)| room).chain(building.leaves);
    let gone = rooms.filter(|room| !there.iter().any(|there| there == *room));
    gone.map(|room| format!("{} has no room {room}", building.folder)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_that_the_table_does_not_allow_is_found() {
        let strays = |path: &str, text: &str| strays(&BUILDINGS[0], path, text);
        let path = "crates/engine/lsm/src/write/mod.rs";
        assert!(strays(path, "use crate::options::settings::SyncPolicy;").is_empty());
        assert!(
            strays(path, "use crate::write::leader::Turn; use crate::user_keys::KeyFormat;")
                .is_empty()
        );
        assert_eq!(strays(path, "use crate::engine::Inner;").len(), 1);
        assert_eq!(
            strays(path, "use crate::{\n    db::Db,\n    options,\n    read::{get, range},\n};")
                .len(),
            2
        );
        assert!(strays(path, "// crate::engine\nlet x = crate::Error;").is_empty());
        assert_eq!(strays("crates/engine/lsm/src/parallel.rs", "crate::db::x()").len(), 1);
        assert_eq!(strays("crates/engine/lsm/src/cellar/mod.rs", "").len(), 1);
    }

    #[test]
    fn a_use_that_points_down_is_found() {
        assert!(circles_in(&[("low", &[]), ("high", &["low"])]).is_empty());
        assert_eq!(circles_in(&[("low", &["high"]), ("high", &["low"])]).len(), 1);
        assert_eq!(circles_in(&[("low", &["low"])]).len(), 1);
    }

    #[test]
    fn a_room_that_went_away_is_found() {
        for building in &BUILDINGS {
            let path = |room: &str| format!("{}/{room}/mod.rs", building.folder);
            let rooms = building.rooms.iter().map(|(room, _)| room).chain(building.leaves);
            let all: Vec<_> = rooms.map(|room| path(room)).collect();
            assert!(missing(building, &all).is_empty());
            assert_eq!(missing(building, &all[1..]).len(), 1);
        }
    }
}
