//! Numbers of the options of backups.

use super::knobs;
use crate::backup::BackupOptions;

knobs! {
    BackupOptions;
    accepted io_buffer_size: u64 = 0,
        set rocksdb_backup_engine_options_set_io_buffer_size,
        get rocksdb_backup_engine_options_get_io_buffer_size;
    accepted backup_rate_limit: u64 = 0,
        set rocksdb_backup_engine_options_set_backup_rate_limit,
        get rocksdb_backup_engine_options_get_backup_rate_limit;
    accepted max_background_operations: i32 = 1,
        set rocksdb_backup_engine_options_set_max_background_operations,
        get rocksdb_backup_engine_options_get_max_background_operations;
    accepted share_table_files: u8 = 1,
        set rocksdb_backup_engine_options_set_share_table_files,
        get rocksdb_backup_engine_options_get_share_table_files;
    accepted sync: u8 = 1,
        set rocksdb_backup_engine_options_set_sync,
        get rocksdb_backup_engine_options_get_sync;
    accepted destroy_old_data: u8 = 0,
        set rocksdb_backup_engine_options_set_destroy_old_data,
        get rocksdb_backup_engine_options_get_destroy_old_data;
    accepted backup_log_files: u8 = 1,
        set rocksdb_backup_engine_options_set_backup_log_files,
        get rocksdb_backup_engine_options_get_backup_log_files;
    accepted restore_rate_limit: u64 = 0,
        set rocksdb_backup_engine_options_set_restore_rate_limit,
        get rocksdb_backup_engine_options_get_restore_rate_limit;
    accepted share_files_with_checksum: u8 = 1,
        set rocksdb_backup_engine_options_set_share_files_with_checksum,
        get rocksdb_backup_engine_options_get_share_files_with_checksum;
    accepted callback_trigger_interval_size: u64 = 4 * 1024 * 1024,
        set rocksdb_backup_engine_options_set_callback_trigger_interval_size,
        get rocksdb_backup_engine_options_get_callback_trigger_interval_size;
    accepted max_valid_backups_to_open: i32 = i32::MAX,
        set rocksdb_backup_engine_options_set_max_valid_backups_to_open,
        get rocksdb_backup_engine_options_get_max_valid_backups_to_open;
    accepted share_files_with_checksum_naming: i32 = i32::MIN + 2,
        set rocksdb_backup_engine_options_set_share_files_with_checksum_naming,
        get rocksdb_backup_engine_options_get_share_files_with_checksum_naming;
    accepted schema_version: i32 = 1,
        set rocksdb_backup_engine_options_set_schema_version,
        get rocksdb_backup_engine_options_get_schema_version;
    accepted current_temperatures_override_manifest: u8 = 0,
        set rocksdb_backup_engine_options_set_current_temperatures_override_manifest,
        get rocksdb_backup_engine_options_get_current_temperatures_override_manifest;
}
