//! Circles of files: files of a crate that import each other in a loop.
//!
//! An import is a path in a `use` that begins with `crate`, `self`, `super` or a child module, or a
//! path in the code that begins with `crate`. A `pub use` hands a name on, so the import is one of the
//! file that has it. The parser knows no macros and no `#[path]`.

use crate::source::code_of;
use std::collections::{BTreeMap, BTreeSet};

/// The most files that a circle may have.
pub const FILES: usize = 3;

/// A path of modules, from the root of the crate.
type Module = Vec<String>;

/// The imports of a file.
struct Imports {
    module: Module,
    /// What is used, as absolute paths.
    used: Vec<Module>,
    /// What is handed on, by the name.
    handed_on: BTreeMap<String, Module>,
}

/// The circles of more than `most` files. `files` are paths inside `src` with texts without tests.
pub fn over(files: &[(String, String)], most: usize) -> Vec<String> {
    let modules: BTreeMap<Module, usize> =
        files.iter().enumerate().map(|(at, (path, _))| (module_of(path), at)).collect();
    let imports: Vec<Imports> =
        files.iter().map(|(path, text)| read(path, text, &modules)).collect();
    let arrows: Vec<BTreeSet<usize>> = imports
        .iter()
        .enumerate()
        .map(|(at, file)| {
            let to = file.used.iter().filter_map(|path| target(path, &modules, &imports));
            to.filter(|to| *to != at).collect()
        })
        .collect();
    let reached: Vec<BTreeSet<usize>> =
        (0..files.len()).map(|at| reached_from(at, &arrows)).collect();
    let mut circles = BTreeSet::new();
    for at in 0..files.len() {
        let is_back = |other: &&usize| reached[**other].contains(&at);
        let circle: Vec<usize> = reached[at].iter().filter(is_back).copied().collect();
        if circle.len() > most {
            circles.insert(circle);
        }
    }
    let named = |circle: &Vec<usize>| {
        let names: Vec<_> = circle.iter().map(|at| files[*at].0.as_str()).collect();
        format!("{} files import each other in a circle: {}", names.len(), names.join(", "))
    };
    circles.iter().map(named).collect()
}

/// The files that are reached from one by arrows: with itself, if one leads back.
fn reached_from(start: usize, arrows: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let (mut reached, mut left) = (BTreeSet::new(), vec![start]);
    while let Some(at) = left.pop() {
        left.extend(arrows[at].iter().filter(|to| reached.insert(**to)));
    }
    reached
}

fn module_of(path: &str) -> Module {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if matches!(path, "lib" | "main") { Vec::new() } else { segments(path, "/") }
}

fn segments(path: &str, between: &str) -> Vec<String> {
    path.split(between).map(|segment| segment.trim().to_owned()).collect()
}

fn read(path: &str, text: &str, modules: &BTreeMap<Module, usize>) -> Imports {
    let (module, code) = (module_of(path), code_of(text));
    let (mut used, mut handed_on) = (Vec::new(), BTreeMap::new());
    for statement in code.split(';') {
        let Some(line) = statement.rfind("use ").map(|at| statement.split_at(at)) else { continue };
        let (before, tree) = (line.0.rsplit('\n').next().unwrap_or(""), &line.1["use ".len()..]);
        let is_pub = before.trim_start().starts_with("pub");
        if !(before.trim().is_empty() || is_pub) {
            continue;
        }
        for leaf in leaves(tree) {
            let Some(path) = absolute(&leaf, &module, modules) else { continue };
            match path.last().filter(|_| is_pub).cloned() {
                Some(name) => _ = handed_on.insert(name, path),
                None => used.push(path),
            }
        }
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for (at, start) in code.match_indices("crate::") {
        let rest = &code[at + start.len()..];
        let path = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        let path: Vec<_> = segments(path, "::").into_iter().filter(|it| !it.is_empty()).collect();
        let is_handed_on = handed_on.values().any(|handed_on| *handed_on == path);
        used.extend(Some(path).filter(|path| !path.is_empty() && !is_handed_on));
    }
    Imports { module, used, handed_on }
}

/// The paths of a `use`, without braces and other names.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((before, inside)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or(tree).trim().to_owned()];
    };
    let inside = inside.trim_end().strip_suffix('}').unwrap_or(inside);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in inside.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            c => parts.last_mut().expect("there is one").push(c),
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| leaves(&format!("{before}{}", part.trim()))).collect()
}

/// The path from the root of the crate; `None` of another crate.
fn absolute(path: &str, own: &Module, modules: &BTreeMap<Module, usize>) -> Option<Module> {
    let mut path = segments(path, "::");
    let mut base = own.clone();
    match path[0].as_str() {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            let ups = path.iter().take_while(|segment| *segment == "super").count();
            base.truncate(base.len().checked_sub(ups)?);
            path.drain(1..ups);
        }
        child => {
            base.push(child.to_owned());
            modules.contains_key(&base).then_some(())?;
        }
    }
    base.extend(path.into_iter().skip(1).filter(|segment| segment != "self"));
    Some(base)
}

/// The file that has what `path` names.
fn target(path: &Module, modules: &BTreeMap<Module, usize>, imports: &[Imports]) -> Option<usize> {
    let mut path = path.clone();
    // Names that are handed on in a loop do not compile.
    for _ in 0..imports.len() {
        let prefixes = (0..=path.len()).rev();
        let (end, at) =
            prefixes.filter_map(|end| Some((end, *modules.get(&path[..end])?))).next()?;
        debug_assert_eq!(imports[at].module, path[..end]);
        match path.get(end).and_then(|name| imports[at].handed_on.get(name)) {
            Some(further) => path = further.iter().chain(&path[end + 1..]).cloned().collect(),
            None => return Some(at),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)], most: usize) -> usize {
        let files: Vec<_> =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        over(&files, most).len()
    }

    #[test]
    fn files_that_import_each_other_are_found() {
        let one = ("a/one.rs", "use super::two::{Two, other::{self}};\n");
        let two = ("a/two.rs", "pub(crate) struct Two(crate::b::Three);\n");
        let back = ("b.rs", "use crate::a::one::One;\n// use crate::c::X;\n");
        assert_eq!(found(&[one, two, back], 2), 1);
        assert_eq!(found(&[one, two, back], 3), 0);
        assert_eq!(found(&[one, two, ("b.rs", "use std::fmt;\n")], 1), 0);
    }

    #[test]
    fn an_import_of_a_name_that_is_handed_on_is_one_of_its_file() {
        let face = ("a/mod.rs", "mod one;\nmod two;\npub use one::One;\n");
        let one = ("a/one.rs", "use super::two::Two;\n");
        let two = ("a/two.rs", "use super::One;\n");
        assert_eq!(found(&[face, one, ("a/two.rs", "")], 1), 0);
        assert_eq!(found(&[face, one, two], 1), 1);
        assert_eq!(
            found(&[("a/mod.rs", "mod one;\nuse one::One;\n"), ("a/one.rs", "use super::X;\n")], 1),
            1
        );
    }
}
