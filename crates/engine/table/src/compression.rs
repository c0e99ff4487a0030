//! How blocks are packed. Each block says how it was, since a block that hardly shrinks is stored
//! as it is: unpacking it would cost every reader more than the bytes are worth.
//!
//! Packed bytes are `unpacked length u32 | lz4 block or zstd frame`.

use esker_base::{Error, Result};
use std::cell::RefCell;
use std::sync::Arc;

/// The compression of a table's data blocks. The numbers are on disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum Compression {
    /// No compression.
    #[default]
    None = 0,
    /// LZ4: fast compression and decompression.
    Lz4 = 1,
    /// Zstandard: smaller than LZ4, several times slower.
    Zstd = 2,
}

/// The zstd level: beyond 3, blocks of 4 KiB gain about one percent and cost twice the time.
const ZSTD_LEVEL: i32 = 3;

/// Packing must save at least one part in this many.
const LEAST_SAVING: usize = 8;

/// LZ4 cannot expand further than this. A longer claim is not believed.
const LZ4_EXPANSION_MAX: usize = 255;

/// Larger blocks, which hold one huge value, are stored; so a larger claim is not believed.
const UNPACKED_BYTES_MAX: usize = 1 << 30;

impl Compression {
    /// The compression with this number.
    pub fn from_u8(code: u8) -> Option<Compression> {
        match code {
            0 => Some(Compression::None),
            1 => Some(Compression::Lz4),
            2 => Some(Compression::Zstd),
            _ => None,
        }
    }
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        })
    }
}

impl std::str::FromStr for Compression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "none" => Ok(Compression::None),
            "lz4" => Ok(Compression::Lz4),
            "zstd" => Ok(Compression::Zstd),
            _ => Err(Error::InvalidSetting {
                setting: "compression",
                value: text.to_owned(),
                reason: "it is one of none, lz4 and zstd".to_owned(),
            }),
        }
    }
}

/// Compresses the values of a value file.
pub struct ValueCompressor(BlockCompressor);

impl ValueCompressor {
    /// A compressor by this method.
    pub fn new(compression: Compression) -> Self {
        ValueCompressor(BlockCompressor::new(compression))
    }

    /// Appends `value` to `out`, compressed if that saves enough, and returns how.
    pub fn compress(&mut self, value: &[u8], out: &mut Vec<u8>) -> Compression {
        self.0.compress(value, out)
    }
}

/// Packs block after block, keeping its tables.
pub(crate) struct BlockCompressor {
    method: Method,
    packed: Vec<u8>,
}

enum Method {
    None,
    Lz4(Box<lz4_flex::block::CompressTable>),
    Zstd(Box<zstd::bulk::Compressor<'static>>),
}

impl BlockCompressor {
    pub(crate) fn new(compression: Compression) -> Self {
        let method = match compression {
            Compression::None => Method::None,
            Compression::Lz4 => Method::Lz4(Box::default()),
            // Only an exhausted heap makes zstd refuse a context; blocks are then stored as they are.
            Compression::Zstd => zstd::bulk::Compressor::new(ZSTD_LEVEL)
                .map_or(Method::None, |compressor| Method::Zstd(Box::new(compressor))),
        };
        BlockCompressor { method, packed: Vec::new() }
    }

    /// Appends `block` to `out`, packed if that saves enough, and says how.
    pub(crate) fn compress(&mut self, block: &[u8], out: &mut Vec<u8>) -> Compression {
        let used = match self.compress_into_spare(block) {
            Some(used) if self.packed.len() <= block.len() - block.len() / LEAST_SAVING => used,
            _ => Compression::None,
        };
        out.extend_from_slice(if used == Compression::None { block } else { &self.packed });
        used
    }

    /// Packs `block` into `self.packed`, if it can be.
    fn compress_into_spare(&mut self, block: &[u8]) -> Option<Compression> {
        if block.len() > UNPACKED_BYTES_MAX {
            return None;
        }
        let unpacked_bytes = block.len() as u32;
        let bound = match self.method {
            Method::None => return None,
            Method::Lz4(_) => lz4_flex::block::get_maximum_output_size(block.len()),
            Method::Zstd(_) => zstd::zstd_safe::compress_bound(block.len()),
        };
        self.packed.resize(4 + bound, 0);
        self.packed[..4].copy_from_slice(&unpacked_bytes.to_le_bytes());
        let target = &mut self.packed[4..];
        let (bytes, used) = match &mut self.method {
            Method::None => return None,
            Method::Lz4(table) => (
                lz4_flex::block::compress_into_with_table(block, target, table).ok()?,
                Compression::Lz4,
            ),
            Method::Zstd(compressor) => {
                (compressor.compress_to_buffer(block, target).ok()?, Compression::Zstd)
            }
        };
        self.packed.truncate(4 + bytes);
        Some(used)
    }
}

/// Unpacks a block that `compression`, not `None`, packed. `None` if the bytes are not such a block.
#[doc(hidden)]
pub fn decompress(compression: Compression, packed: &[u8]) -> Option<Arc<[u8]>> {
    let (unpacked_bytes, packed) = packed.split_first_chunk::<4>()?;
    let unpacked_bytes = u32::from_le_bytes(*unpacked_bytes) as usize;
    let possible = match compression {
        Compression::None => false,
        Compression::Lz4 => unpacked_bytes / LZ4_EXPANSION_MAX <= packed.len(),
        Compression::Zstd => true,
    };
    if !possible || unpacked_bytes > UNPACKED_BYTES_MAX {
        return None;
    }
    let mut out = zeroed(unpacked_bytes);
    let target = Arc::get_mut(&mut out)?;
    let bytes = match compression {
        Compression::Lz4 => lz4_flex::block::decompress_into(packed, target).ok()?,
        _ => unpack_zstd(packed, target)?,
    };
    (bytes == unpacked_bytes).then_some(out)
}

/// Shared bytes that are still one's own to fill, so that a block is read or unpacked in place.
pub(crate) fn zeroed(bytes: usize) -> Arc<[u8]> {
    std::iter::repeat_n(0, bytes).collect()
}

fn unpack_zstd(packed: &[u8], target: &mut [u8]) -> Option<usize> {
    thread_local! {
        /// A context is about 100 KB and slow to make, so each thread keeps one.
        static CONTEXT: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
            const { RefCell::new(None) };
    }
    CONTEXT.with_borrow_mut(|context| {
        if context.is_none() {
            *context = zstd::bulk::Decompressor::new().ok();
        }
        context.as_mut()?.decompress_to_buffer(packed, target).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;

    #[test]
    fn names_round_trip() {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            assert_eq!(compression.to_string().parse::<Compression>().unwrap(), compression);
            assert_eq!(Compression::from_u8(compression as u8), Some(compression));
        }
        assert!("gzip".parse::<Compression>().is_err());
        assert_eq!(Compression::from_u8(3), None);
    }

    #[test]
    fn blocks_round_trip_at_every_size() {
        for compression in [Compression::Lz4, Compression::Zstd] {
            let mut packer = BlockCompressor::new(compression);
            for bytes in [100, 4096, 70_000, 4097, 1 << 20] {
                let block: Vec<u8> = (0..bytes).map(|at| (at / 50) as u8).collect();
                let mut out = Vec::new();
                assert_eq!(packer.compress(&block, &mut out), compression, "{bytes} bytes");
                assert!(out.len() < block.len());
                assert_eq!(decompress(compression, &out), Some(block.into()));
            }
        }
    }

    #[test]
    fn a_block_that_hardly_shrinks_is_stored() {
        let mut block = vec![0; 4096];
        Rng::new(1).fill(&mut block);
        for compression in [Compression::Lz4, Compression::Zstd] {
            let mut out = Vec::new();
            assert_eq!(
                BlockCompressor::new(compression).compress(&block, &mut out),
                Compression::None
            );
            assert_eq!(out, block);
        }
    }

    #[test]
    fn damaged_packed_bytes_never_panic() {
        let block: Vec<u8> = (0..4096).map(|at| (at / 50) as u8).collect();
        for compression in [Compression::Lz4, Compression::Zstd] {
            let mut packed = Vec::new();
            BlockCompressor::new(compression).compress(&block, &mut packed);
            for len in 0..packed.len() {
                assert_eq!(decompress(compression, &packed[..len]), None, "{compression} {len}");
            }
            for at in 0..packed.len() {
                let mut bad = packed.clone();
                bad[at] ^= 0xff;
                let _ = decompress(compression, &bad);
            }
        }
    }
}
