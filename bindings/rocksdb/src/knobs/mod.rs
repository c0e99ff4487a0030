//! Numbers that a program sets and reads back: most of RocksDB's options.
//!
//! An object of options keeps what was set, by name. The engine uses few of them: these are declared as
//! `works` where they are, and read by their names with [`Knobs::number`]. The others are `accepted`:
//! Esker has no such knob, or chooses the value itself.

mod backups;
mod database;
mod database_more;
mod families;
mod others;
mod reads;
mod tables;

use crate::border::Handle;

/// The numbers of an object of options that a program has set.
#[derive(Clone, Default, Debug)]
pub struct Knobs {
    /// By name. A later value replaces an earlier one.
    set: Vec<(&'static str, u64, Shown)>,
}

/// How a number of a type is shown as text.
type Shown = fn(u64) -> String;

impl Knobs {
    /// Sets a number.
    pub fn set<T: Number>(&mut self, name: &'static str, value: T) {
        let (bits, shown) = (value.bits(), (|bits| T::of_bits(bits).text()) as Shown);
        match self.set.iter_mut().find(|known| known.0 == name) {
            Some(known) => (known.1, known.2) = (bits, shown),
            None => self.set.push((name, bits, shown)),
        }
    }

    /// The number that was set, or `otherwise`.
    pub fn number<T: Number>(&self, name: &str, otherwise: T) -> T {
        let found = self.set.iter().find(|known| known.0 == name);
        found.map_or(otherwise, |known| T::of_bits(known.1))
    }

    /// Whether a switch was set to something else than zero.
    pub fn is_on(&self, name: &str) -> bool {
        self.number(name, 0_u8) != 0
    }

    /// The names and values that were set, as text.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        self.set.iter().map(|(name, bits, shown)| (*name, shown(*bits)))
    }
}

/// An object that has numbers.
pub trait HasKnobs {
    /// The numbers.
    fn knobs(&self) -> &Knobs;
    /// The numbers, to change them.
    fn knobs_mut(&mut self) -> &mut Knobs;
}

impl HasKnobs for Knobs {
    fn knobs(&self) -> &Knobs {
        self
    }

    fn knobs_mut(&mut self) -> &mut Knobs {
        self
    }
}

/// A type of C whose values fit 64 bits.
pub trait Number: Copy {
    /// The value as bits.
    fn bits(self) -> u64;
    /// The value of these bits.
    fn of_bits(bits: u64) -> Self;
    /// The value as text, as RocksDB shows it.
    fn text(self) -> String;
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn bits(self) -> u64 {
                self as u64
            }

            fn of_bits(bits: u64) -> Self {
                bits as $type
            }

            fn text(self) -> String {
                self.to_string()
            }
        }
    )*};
}

numbers!(u8, i32, u32, i64, u64, usize);

impl Number for bool {
    fn bits(self) -> u64 {
        u64::from(self)
    }

    fn of_bits(bits: u64) -> Self {
        bits != 0
    }

    fn text(self) -> String {
        u8::from(self).to_string()
    }
}

impl Number for f64 {
    fn bits(self) -> u64 {
        self.to_bits()
    }

    fn of_bits(bits: u64) -> Self {
        f64::from_bits(bits)
    }

    fn text(self) -> String {
        format!("{self:.6}")
    }
}

/// Whether the engine uses a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// It does.
    Works,
    /// It is stored, and only the program reads it.
    Accepted,
}

/// A number that an option has: its name, whether it is used, and how it is set from text.
pub struct Knob {
    /// The name, as RocksDB's structures have it.
    pub name: &'static str,
    /// Whether the engine uses it.
    pub used: Use,
    /// The functions that set and read it.
    pub functions: &'static [&'static str],
    /// Sets the number from text. `None` if the text is no such number.
    pub parse: fn(&mut Knobs, &str) -> Option<()>,
    /// The number that was set, or RocksDB's default, as text.
    pub text: fn(&Knobs) -> String,
}

/// Sets a number from text, which may be `true` or `false`.
pub fn parse<T: Number + std::str::FromStr>(
    knobs: &mut Knobs,
    name: &'static str,
    text: &str,
) -> Option<()> {
    let text = match text.trim() {
        "true" => "1",
        "false" => "0",
        text => text,
    };
    let value = text.parse().ok().or_else(|| with_suffix(text)?.to_string().parse().ok())?;
    knobs.set::<T>(name, value);
    Some(())
}

/// A number with a suffix of RocksDB: `64K`, `2M`, `1G`, `1T`.
fn with_suffix(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T']);
    let shift = match text.get(digits.len()..)?.to_ascii_lowercase().as_str() {
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Declares functions that set and read numbers of an object, and `KNOBS`, the list of the numbers.
///
/// A line is `works|accepted NAME: TYPE = DEFAULT, set FUNCTION, get FUNCTION;` where one of the
/// functions may be missing.
macro_rules! knobs {
    ($object:ty; $($used:ident $name:ident: $type:ty = $default:expr
        $(, set $set:ident)? $(, get $get:ident)?;)*) => {
        $(
            $(
                // SAFETY: it is the only function of this name, with the signature of `rocksdb/c.h`.
                #[unsafe(no_mangle)]
                pub extern "C" fn $set(object: $crate::border::Handle<$object>, value: $type) {
                    $crate::border::guard(move || object.change(|object| {
                        let knobs = $crate::knobs::HasKnobs::knobs_mut(object);
                        knobs.set::<$type>(stringify!($name), value);
                    }));
                }
            )?
            $(
                // SAFETY: it is the only function of this name, with the signature of `rocksdb/c.h`.
                #[unsafe(no_mangle)]
                pub extern "C" fn $get(object: $crate::border::Handle<$object>) -> $type {
                    $crate::border::guard(move || {
                        let knobs = $crate::knobs::HasKnobs::knobs(object.get());
                        knobs.number::<$type>(stringify!($name), $default)
                    })
                }
            )?
        )*
        $crate::knobs::list! { $($used $name: $type = $default $(, $set)? $(, $get)?;)* }
    };
}

/// The list that [`knobs`] declares.
macro_rules! list {
    ($($used:ident $name:ident: $type:ty = $default:expr $(, $function:ident)*;)*) => {
        pub(crate) const KNOBS: &[$crate::knobs::Knob] = &[$($crate::knobs::Knob {
            name: stringify!($name),
            used: $crate::knobs::list!(@ $used),
            functions: &[$(stringify!($function)),*],
            parse: |knobs, text| $crate::knobs::parse::<$type>(knobs, stringify!($name), text),
            text: |knobs| {
                $crate::knobs::Number::text(knobs.number::<$type>(stringify!($name), $default))
            },
        }),*];
    };
    (@ works) => { $crate::knobs::Use::Works };
    (@ accepted) => { $crate::knobs::Use::Accepted };
}

/// Declares how objects of options that only have numbers are created and destroyed.
macro_rules! objects {
    ($($create:ident, $destroy:ident;)*) => {
        $(
            // SAFETY: it is the only function of this name, with the signature of `rocksdb/c.h`.
            #[unsafe(no_mangle)]
            pub extern "C" fn $create() -> Handle<Knobs> {
                $crate::border::guard(|| Handle::new(Knobs::default()))
            }

            // SAFETY: it is the only function of this name, with the signature of `rocksdb/c.h`.
            #[unsafe(no_mangle)]
            pub extern "C" fn $destroy(object: Handle<Knobs>) {
                $crate::border::guard(|| drop(object.take()));
            }
        )*
        /// The functions that create and destroy objects.
        pub(crate) const OBJECTS: &[&str] = &[$(stringify!($create), stringify!($destroy)),*];
    };
}

objects! {
    rocksdb_writeoptions_create, rocksdb_writeoptions_destroy;
    rocksdb_flushoptions_create, rocksdb_flushoptions_destroy;
    rocksdb_flushwaloptions_create, rocksdb_flushwaloptions_destroy;
    rocksdb_compactoptions_create, rocksdb_compactoptions_destroy;
    rocksdb_transaction_options_create, rocksdb_transaction_options_destroy;
    rocksdb_transactiondb_options_create, rocksdb_transactiondb_options_destroy;
    rocksdb_optimistictransaction_options_create, rocksdb_optimistictransaction_options_destroy;
    rocksdb_optimistictransactiondb_options_create, rocksdb_optimistictransactiondb_options_destroy;
    rocksdb_ingestexternalfileoptions_create, rocksdb_ingestexternalfileoptions_destroy;
    rocksdb_create_backup_options_create, rocksdb_create_backup_options_destroy;
    rocksdb_restore_options_create, rocksdb_restore_options_destroy;
    rocksdb_universal_compaction_options_create, rocksdb_universal_compaction_options_destroy;
    rocksdb_fifo_compaction_options_create, rocksdb_fifo_compaction_options_destroy;
    rocksdb_cuckoo_options_create, rocksdb_cuckoo_options_destroy;
    rocksdb_envoptions_create, rocksdb_envoptions_destroy;
    rocksdb_lru_cache_options_create, rocksdb_lru_cache_options_destroy;
    rocksdb_size_approximation_options_create, rocksdb_size_approximation_options_destroy;
    rocksdb_wait_for_compact_options_create, rocksdb_wait_for_compact_options_destroy;
    rocksdb_column_family_metadata_options_create, rocksdb_column_family_metadata_options_destroy;
    rocksdb_import_column_family_options_create, rocksdb_import_column_family_options_destroy;
    rocksdb_livefiles_storage_info_options_create, rocksdb_livefiles_storage_info_options_destroy;
    rocksdb_open_and_compact_options_create, rocksdb_open_and_compact_options_destroy;
    rocksdb_compaction_options_create, rocksdb_compaction_options_destroy;
    rocksdb_trace_options_create, rocksdb_trace_options_destroy;
    rocksdb_replay_options_create, rocksdb_replay_options_destroy;
    rocksdb_block_cache_trace_options_create, rocksdb_block_cache_trace_options_destroy;
    rocksdb_block_cache_trace_writer_options_create, rocksdb_block_cache_trace_writer_options_destroy;
    rocksdb_wal_readoptions_create, rocksdb_wal_readoptions_destroy;
}

pub(crate) use {knobs, list};

/// The numbers of all objects.
pub fn all() -> impl Iterator<Item = &'static Knob> {
    let of_databases = database::KNOBS.iter().chain(database_more::KNOBS).chain(families::KNOBS);
    of_databases.chain(tables::KNOBS).chain(reads::KNOBS).chain(others::KNOBS).chain(backups::KNOBS)
}

/// The number of a database or of a column family that is called `name`.
pub fn of_databases(name: &str) -> Option<&'static Knob> {
    let all = database::KNOBS.iter().chain(database_more::KNOBS).chain(families::KNOBS);
    all.into_iter().find(|knob| knob.name == name)
}

/// The numbers of databases and column families, then those of tables.
pub fn shown() -> (impl Iterator<Item = &'static Knob>, &'static [Knob]) {
    let all = database::KNOBS.iter().chain(database_more::KNOBS).chain(families::KNOBS);
    (all, tables::KNOBS)
}

/// The number of a table that is called `name`.
pub fn of_tables(name: &str) -> Option<&'static Knob> {
    tables::KNOBS.iter().find(|knob| knob.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_what_was_set_last() {
        let mut knobs = Knobs::default();
        assert_eq!(knobs.number("ratio", 0.5), 0.5);
        knobs.set("ratio", 0.75);
        knobs.set("level", -1_i32);
        knobs.set("ratio", 2.25);
        assert_eq!((knobs.number("ratio", 0.0), knobs.number("level", 0_i32)), (2.25, -1));
        let texts: Vec<_> = knobs.texts().collect();
        assert_eq!(texts, [("ratio", "2.250000".to_owned()), ("level", "-1".to_owned())]);
    }

    #[test]
    fn numbers_are_read_from_text() {
        let mut knobs = Knobs::default();
        for (text, value) in [("64K", 64 << 10), ("true", 1), (" 7 ", 7), ("2m", 2 << 20)] {
            parse::<u64>(&mut knobs, "bytes", text).unwrap();
            assert_eq!(knobs.number("bytes", 0_u64), value, "{text}");
        }
        for text in ["", "x", "7Q", "-1", "K"] {
            assert!(parse::<u64>(&mut knobs, "bytes", text).is_none(), "{text}");
        }
    }
}
