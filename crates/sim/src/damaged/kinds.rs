//! The ways in which a file is damaged.

use super::image::files;
use esker_base::Rng;
use std::io;
use std::path::{Path, PathBuf};

/// What was done to a file.
pub struct Damaged {
    /// In words.
    pub text: String,
    /// Whether the end of a log may be gone without a trace.
    pub may_cut: bool,
    /// Whether it is a file that only says which files there are: all data are whole.
    pub is_manifest: bool,
}

/// Damages one of the files in a directory.
pub fn damage(dir: &Path, rng: &mut Rng) -> io::Result<Damaged> {
    let mut files: Vec<PathBuf> = files(dir)?.into_iter().collect();
    files.retain(|path| {
        let is_lock = path.file_name().is_some_and(|name| name == "LOCK");
        !is_lock && std::fs::metadata(path).is_ok_and(|found| found.len() > 0)
    });
    let file = &files[rng.below(files.len() as u64) as usize];
    let name = file.file_name().unwrap_or_default().display().to_string();
    let mut bytes = std::fs::read(file)?;
    let block = [512, 4096][rng.below(2) as usize].min(bytes.len());
    let at = place(&bytes, rng);
    let start = at / block * block;
    let end = (start + block).min(bytes.len());
    let kind = rng.below(5);
    let text = match kind {
        0 => {
            bytes[at] ^= 1 << rng.below(8);
            format!("a bit flipped at byte {at} of {name}")
        }
        1 => {
            bytes.truncate(at);
            format!("{name} cut off at byte {at}")
        }
        2 => {
            bytes[start..end].fill(0);
            format!("bytes {start} to {end} of {name} zeroed")
        }
        3 => {
            let other = place(&bytes, rng) / block * block;
            let bytes_swapped = (end - start).min(bytes.len() - other);
            for step in 0..bytes_swapped {
                bytes.swap(start + step, other + step);
            }
            format!("{bytes_swapped} bytes at {start} and {other} of {name} swapped")
        }
        _ => {
            let source = &files[rng.below(files.len() as u64) as usize];
            let from = std::fs::read(source)?;
            let other = place(&from, rng) / block * block;
            let part = &from[other..(other + end - start).min(from.len())];
            bytes[start..start + part.len()].copy_from_slice(part);
            let source = source.file_name().unwrap_or_default().display();
            format!("{} bytes at {other} of {source} written at {start} of {name}", part.len())
        }
    };
    std::fs::write(file, bytes)?;
    let is_manifest = name == "CURRENT" || name.ends_with(".manifest");
    Ok(Damaged { text, may_cut: kind > 0, is_manifest })
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
