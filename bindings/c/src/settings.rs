//! Settings by their names.

use crate::border::{Failure, given, handle_slot, quietly, text};
use crate::error::esker_error;
use crate::status::esker_status;
use esker::{KeyspaceSettings, Settings};
use std::ffi::c_char;

/// The settings of a database, which each open gets: see `esker_settings_set`.
pub struct esker_settings {
    pub(crate) settings: Settings,
}

/// The settings of a keyspace, which it gets when it is created: see `esker_keyspace_settings_set`.
pub struct esker_keyspace_settings {
    pub(crate) settings: KeyspaceSettings,
}

impl esker_settings {
    /// The settings, or the defaults if `settings` is NULL.
    pub(crate) fn or_default(settings: Option<&esker_settings>) -> Settings {
        settings.map_or_else(Settings::default, |it| it.settings.clone())
    }
}

pub(crate) fn unknown_or_wrong(why: String) -> Failure {
    Failure::new(esker_status::ESKER_INVALID_SETTING, why)
}

/// Makes the default settings of a database. The caller frees them with `esker_settings_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_settings_new(
    settings_out: *mut *mut esker_settings,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = handle_slot(settings_out, "the settings")?;
        out.put_handle(esker_settings { settings: Settings::default() });
        Ok(())
    })
}

/// Sets the setting `name` to the value that `value` has as text, such as "memory_bytes" to "256MiB".
///
/// | name | values |
/// |---|---|
/// | log | files, files:DIR, none, pmem:FILE, emulated-pmem:FILE |
/// | sync | always, os, an interval such as 100ms |
/// | recovery | prefix, strict |
/// | segment_bytes, memory_bytes | a size such as 65536, 512K or 64MiB |
/// | dram_table_bytes | auto, a size |
/// | sealed_segments, background_threads | a number |
/// | max_open_files | auto, a number |
/// | forwarding | on-flush, always, adaptive |
/// | background_write_rate | unlimited, 20MiB, 5MiB..100MiB |
/// | delete_age_max, slow_call | off, a time such as 500us, 10ms, 2s or 30d |
/// | direct_reads, answers_requests | true, false |
/// | default.NAME | a setting of the default keyspace, if the database is new |
///
/// The page "Settings" of the guide describes them. Ranges are checked by the open.
///
/// `ESKER_INVALID_SETTING` if there is no such setting or value: the text says which there are, and
/// nothing is changed. One thread at once may change settings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_settings_set(
    settings: Option<&mut esker_settings>,
    name: *const c_char,
    value: *const c_char,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let settings = given(settings, "settings")?;
        let (name, value) = (text(name, "name")?, text(value, "value")?);
        settings.settings.set_by_name(name, value).map_err(unknown_or_wrong)
    })
}

/// Frees settings. Databases that were opened with them keep theirs. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn esker_settings_free(settings: Option<Box<esker_settings>>) {
    quietly((), || drop(settings));
}

/// Makes the default settings of a keyspace. The caller frees them with
/// `esker_keyspace_settings_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_settings_new(
    settings_out: *mut *mut esker_keyspace_settings,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = handle_slot(settings_out, "the settings")?;
        out.put_handle(esker_keyspace_settings { settings: KeyspaceSettings::default() });
        Ok(())
    })
}

/// Sets the setting `name` of a keyspace to the value that `value` has as text.
///
/// | name | values |
/// |---|---|
/// | shape | leveled, leveled:10, tiered:8, windowed:1h, windowed:1h:BYTES |
/// | dedup | none, per-level:1.6, space-goal:1.2 |
/// | compression | none, lz4, zstd |
/// | filter_bits | a number of 0 to 32 |
/// | merge | none, add_i64, max, min, append, set_union, hyper_log_log |
/// | ttl | none, a time such as 90s, 12h or 7d |
/// | separation_threshold | none, a size such as 4KiB |
///
/// Errors and threads are those of `esker_settings_set`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_settings_set(
    settings: Option<&mut esker_keyspace_settings>,
    name: *const c_char,
    value: *const c_char,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let settings = given(settings, "settings")?;
        let (name, value) = (text(name, "name")?, text(value, "value")?);
        settings.settings.set_by_name(name, value).map_err(unknown_or_wrong)
    })
}

/// Frees settings. Keyspaces that were created with them keep theirs. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn esker_keyspace_settings_free(settings: Option<Box<esker_keyspace_settings>>) {
    quietly((), || drop(settings));
}
