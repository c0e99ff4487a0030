//! The ways in which a file is damaged.

use super::image::Place;
use super::image::{Image, Kind, Span, files};
use super::judge::History;
use esker_base::Rng;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Damage to a file.
pub struct Damage {
    /// In words.
    pub text: String,
    file: PathBuf,
    before: Vec<u8>,
    after: Vec<u8>,
    change: Change,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Flip,
    Cut,
    Overwrite,
}

impl Damage {
    /// The first writes of an image of which none may be lost in silence: those up to the last one of which damage leaves
    /// all bytes.
    ///
    /// Every flipped bit is noticed, and so is a file that is shorter than it was made. Only a chunk of a flash device is as
    /// long as what is written in it.
    pub fn kept(&self, image: &Image) -> usize {
        let is_noticed = match self.change {
            Change::Flip => true,
            Change::Cut => image.kind != Kind::Database(Place::Flash),
            Change::Overwrite => false,
        };
        if is_noticed { image.history.writes.len() } else { self.kept_beside_writer(image) }
    }

    /// The same for uses to which a damaged last write looks like one that another process is just making.
    pub fn kept_beside_writer(&self, image: &Image) -> usize {
        let History { writes, flushed } = &image.history;
        let stored = &image.stored[image.stored.len() - (writes.len() - flushed)..];
        let touched = stored.iter().map(|spans| self.touches(spans));
        image.history.kept_of(&touched.collect::<Vec<_>>())
    }

    /// The keys of the last writes of which it touches a byte.
    pub fn touched_keys<'a>(&self, image: &'a Image) -> impl Iterator<Item = &'a Vec<u8>> {
        let keys = image.history.writes.iter().rev().map(|(key, _)| key);
        let stored = keys.zip(image.stored.iter().rev());
        stored.filter(|(_, spans)| self.touches(spans)).map(|(key, _)| key)
    }

    fn touches(&self, spans: &[Span]) -> bool {
        let is_whole = |bytes: &std::ops::Range<usize>| {
            self.after.get(bytes.clone()) == self.before.get(bytes.clone())
        };
        spans.iter().any(|span| span.file == self.file && !is_whole(&span.bytes))
    }
}

/// Damages one of the files in a directory. At least one byte is not as it was.
pub fn damage(dir: &Path, rng: &mut Rng) -> io::Result<Damage> {
    loop {
        let damage = draw(dir, rng)?;
        if damage.after != damage.before {
            std::fs::write(dir.join(&damage.file), &damage.after)?;
            return Ok(damage);
        }
    }
}

fn draw(dir: &Path, rng: &mut Rng) -> io::Result<Damage> {
    let mut files = files(dir)?;
    files.retain(|_, bytes| *bytes > 0);
    let files: Vec<PathBuf> = files.into_keys().collect();
    let file = one_of(&files, rng);
    let name = file.display();
    let before = std::fs::read(dir.join(file))?;
    let mut bytes = before.clone();
    let block = [512, 4096][rng.below(2) as usize].min(bytes.len());
    let at = place(&bytes, rng);
    let start = at / block * block;
    let end = (start + block).min(bytes.len());
    let (change, text) = match rng.below(5) {
        0 => {
            bytes[at] ^= 1 << rng.below(8);
            (Change::Flip, format!("a bit flipped at byte {at} of {name}"))
        }
        1 => {
            bytes.truncate(at);
            (Change::Cut, format!("{name} cut off at byte {at}"))
        }
        2 => {
            bytes[start..end].fill(0);
            (Change::Overwrite, format!("bytes {start} to {end} of {name} zeroed"))
        }
        3 => {
            let other = place(&bytes, rng) / block * block;
            let swapped = (end - start).min(bytes.len() - other);
            for step in 0..swapped {
                bytes.swap(start + step, other + step);
            }
            (Change::Overwrite, format!("{swapped} bytes at {start} and {other} of {name} swapped"))
        }
        _ => {
            let source = &files[rng.below(files.len() as u64) as usize];
            let from = std::fs::read(dir.join(source))?;
            let other = place(&from, rng) / block * block;
            let part = &from[other..(other + end - start).min(from.len())];
            bytes[start..start + part.len()].copy_from_slice(part);
            let (length, source) = (part.len(), source.display());
            let text =
                format!("{length} bytes at {other} of {source} written at {start} of {name}");
            (Change::Overwrite, text)
        }
    };
    Ok(Damage { text, file: file.clone(), before, after: bytes, change })
}

/// One of `files`. All kinds are equally likely: a kind with many files leaves the others their share.
fn one_of<'a>(files: &'a [PathBuf], rng: &mut Rng) -> &'a PathBuf {
    let mut kinds = BTreeMap::<_, Vec<_>>::new();
    for file in files {
        kinds.entry(file.extension()).or_default().push(file);
    }
    let kinds: Vec<_> = kinds.into_values().collect();
    let kind = &kinds[rng.below(kinds.len() as u64) as usize];
    kind[rng.below(kind.len() as u64) as usize]
}

/// A byte of a file: mostly one of a block that holds anything.
fn place(bytes: &[u8], rng: &mut Rng) -> usize {
    for _ in 0..20 {
        let at = rng.below(bytes.len() as u64) as usize;
        let block = &bytes[at / 512 * 512..(at / 512 * 512 + 512).min(bytes.len())];
        if block.iter().any(|byte| *byte != 0) {
            return at;
        }
    }
    rng.below(bytes.len() as u64) as usize
}
