//! A disk that keeps what was synced and, of the rest, whatever a power cut happens to leave.
//!
//! It replays the system calls of a traced program:
//!
//! * Bytes written and lengths set survive once an fsync or fdatasync of the file, begun after the
//!   write had returned, has returned.
//! * A name created, renamed, linked or removed survives once an fsync of its directory has. An fsync
//!   of a file does nothing for its name.
//! * Of what is not synced, a power cut keeps any writes, torn or whole, and any changes of names that
//!   an order of them allows. [`Cut::Least`] keeps none; [`Cut::Some`] keeps some, by a seed.

use super::tracer::{Call, Inode};
use esker_base::Rng;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How much a power cut keeps of what is not synced.
pub enum Cut {
    Least,
    Some(Rng),
}

impl Cut {
    fn keeps(&mut self) -> bool {
        match self {
            Cut::Least => false,
            Cut::Some(rng) => rng.below(2) == 0,
        }
    }
}

/// A file or a directory. The kernel uses an inode's number again, so each has one of ours.
type Id = usize;

#[derive(Default)]
struct Node {
    /// `None`: a file.
    names: Option<BTreeMap<String, Id>>,
    content: Vec<u8>,
    file_changes: Vec<FileChange>,
    name_changes: Vec<NameChange>,
}

#[derive(Clone)]
enum FileChange {
    Write { offset: u64, bytes: Vec<u8> },
    SetLength(u64),
    Extend(u64),
}

#[derive(Clone)]
enum NameChange {
    Add(String, Id),
    Remove(String),
    Rename(String, String),
}

/// A sync in progress: what of the node it covers.
struct Sync {
    id: Id,
    file_changes: usize,
    name_changes: usize,
}

pub struct Disk {
    root: Id,
    nodes: Vec<Node>,
    ids: HashMap<Inode, Id>,
    syncs: HashMap<i32, Sync>,
    /// The names as the running program sees them.
    seen: HashMap<(Id, String), Id>,
}

impl Disk {
    /// A disk with one empty directory, which survives anything.
    pub fn new(root: Inode) -> Self {
        let node = Node { names: Some(BTreeMap::new()), ..Node::default() };
        Disk {
            root: 0,
            nodes: vec![node],
            ids: HashMap::from([(root, 0)]),
            syncs: HashMap::new(),
            seen: HashMap::new(),
        }
    }

    /// Replays a call. Says whether more survives than before.
    pub fn replay(&mut self, call: Call) -> bool {
        match call {
            Call::Open { parent, name, file, truncate } => {
                let Some(&parent) = self.ids.get(&parent) else {
                    return false;
                };
                let known = self.seen.get(&(parent, name.clone())).copied();
                let id = known.unwrap_or_else(|| self.add(parent, name, file, None));
                if truncate {
                    self.nodes[id].file_changes.push(FileChange::SetLength(0));
                }
            }
            Call::MakeDirectory { parent, name, made } => {
                if let Some(&parent) = self.ids.get(&parent) {
                    self.add(parent, name, made, Some(BTreeMap::new()));
                }
            }
            Call::Write { file, offset, bytes } => {
                self.change(file, FileChange::Write { offset, bytes });
            }
            Call::SetLength { file, bytes } => self.change(file, FileChange::SetLength(bytes)),
            Call::Extend { file, bytes } => self.change(file, FileChange::Extend(bytes)),
            Call::Remove { parent, name } => {
                if let Some(&parent) = self.ids.get(&parent) {
                    self.seen.remove(&(parent, name.clone()));
                    self.nodes[parent].name_changes.push(NameChange::Remove(name));
                }
            }
            Call::Rename { from: (parent, from), to: (target, to) } => {
                let (Some(&parent), Some(&target)) = (self.ids.get(&parent), self.ids.get(&target))
                else {
                    return false;
                };
                assert_eq!(parent, target, "names move within a directory only");
                let id = self.seen.remove(&(parent, from.clone())).expect("it was created");
                self.seen.insert((parent, to.clone()), id);
                self.nodes[parent].name_changes.push(NameChange::Rename(from, to));
            }
            Call::Link { from: (parent, from), to: (target, to) } => {
                let (Some(&parent), Some(&target)) = (self.ids.get(&parent), self.ids.get(&target))
                else {
                    return false;
                };
                let id = self.seen[&(parent, from)];
                self.seen.insert((target, to.clone()), id);
                self.nodes[target].name_changes.push(NameChange::Add(to, id));
            }
            Call::SyncBegun { thread, what } => {
                if let Some(&id) = self.ids.get(&what) {
                    let node = &self.nodes[id];
                    let (file_changes, name_changes) =
                        (node.file_changes.len(), node.name_changes.len());
                    self.syncs.insert(thread, Sync { id, file_changes, name_changes });
                }
            }
            Call::SyncEnded { thread } => return self.end_sync(thread),
            Call::Said(_) => {}
        }
        false
    }

    fn add(
        &mut self,
        parent: Id,
        name: String,
        inode: Inode,
        names: Option<BTreeMap<String, Id>>,
    ) -> Id {
        let id = self.nodes.len();
        self.nodes.push(Node { names, ..Node::default() });
        self.ids.insert(inode, id);
        self.seen.insert((parent, name.clone()), id);
        self.nodes[parent].name_changes.push(NameChange::Add(name, id));
        id
    }

    fn change(&mut self, file: Inode, change: FileChange) {
        if let Some(&id) = self.ids.get(&file) {
            self.nodes[id].file_changes.push(change);
        }
    }

    /// What a sync covers survives, if another one has not seen to that already.
    fn end_sync(&mut self, thread: i32) -> bool {
        let Some(Sync { id, file_changes, name_changes }) = self.syncs.remove(&thread) else {
            return false;
        };
        let node = &mut self.nodes[id];
        for change in node.file_changes.drain(..file_changes) {
            apply(&mut node.content, &change, None);
        }
        for change in node.name_changes.drain(..name_changes) {
            rename(node.names.as_mut().expect("a directory"), &change);
        }
        // Of other threads' syncs of the same node, this much is done.
        for sync in self.syncs.values_mut().filter(|sync| sync.id == id) {
            sync.file_changes = sync.file_changes.saturating_sub(file_changes);
            sync.name_changes = sync.name_changes.saturating_sub(name_changes);
        }
        file_changes + name_changes > 0
    }

    /// Whether anything is not synced.
    pub fn has_unsynced(&self) -> bool {
        self.nodes.iter().any(|n| !n.file_changes.is_empty() || !n.name_changes.is_empty())
    }

    /// Writes what a power cut leaves into the empty directory `target`.
    pub fn cut(&self, target: &Path, cut: &mut Cut) {
        self.leave(self.root, target, cut);
    }

    fn leave(&self, directory: Id, target: &Path, cut: &mut Cut) {
        let node = &self.nodes[directory];
        let mut names = node.names.clone().expect("a directory");
        for change in &node.name_changes {
            if cut.keeps() {
                rename(&mut names, change);
            }
        }
        for (name, id) in names {
            let (node, target) = (&self.nodes[id], target.join(name));
            if node.names.is_some() {
                fs::create_dir(&target).unwrap();
                self.leave(id, &target, cut);
                continue;
            }
            let mut content = node.content.clone();
            for change in &node.file_changes {
                if cut.keeps() {
                    apply(&mut content, change, Some(cut));
                }
            }
            write_sparse(&target, &content);
        }
    }
}

/// What a device writes as a whole.
const SECTOR_BYTES: usize = 512;

/// Makes a change of a file; of a write only some sectors, if it is `torn`.
fn apply(content: &mut Vec<u8>, change: &FileChange, mut torn: Option<&mut Cut>) {
    match change {
        FileChange::SetLength(bytes) => content.resize(*bytes as usize, 0),
        FileChange::Extend(bytes) => content.resize(content.len().max(*bytes as usize), 0),
        FileChange::Write { offset, bytes } => {
            let end = *offset as usize + bytes.len();
            content.resize(content.len().max(end), 0);
            let mut at = *offset as usize;
            let tears = torn.as_mut().is_some_and(|cut| cut.keeps());
            while at < end {
                let next = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
                let part = at..next.min(end);
                if !tears || torn.as_mut().is_some_and(|cut| cut.keeps()) {
                    let from = at - *offset as usize;
                    content[part.clone()].copy_from_slice(&bytes[from..from + part.len()]);
                }
                at = next;
            }
        }
    }
}

fn rename(names: &mut BTreeMap<String, Id>, change: &NameChange) {
    match change {
        NameChange::Add(name, id) => _ = names.insert(name.clone(), *id),
        NameChange::Remove(name) => _ = names.remove(name),
        NameChange::Rename(from, to) => {
            if let Some(id) = names.remove(from) {
                names.insert(to.clone(), id);
            }
        }
    }
}

/// Writes a file whose zeros take no time.
fn write_sparse(path: &Path, content: &[u8]) {
    let file = fs::File::create(path).unwrap();
    file.set_len(content.len() as u64).unwrap();
    for (number, part) in content.chunks(4096).enumerate() {
        if part.iter().any(|&byte| byte != 0) {
            file.write_all_at(part, number as u64 * 4096).unwrap();
        }
    }
}
