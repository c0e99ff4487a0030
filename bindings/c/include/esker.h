// Esker: an embedded key-value storage engine. This is the interface for C.
//
// Generated from the sources in bindings/c/src; do not edit.
//
// A database is a directory of ordered keyspaces. Keys and values are bytes; keys sort bytewise.
// docs/guide/c.md shows how to use this header. Rules that all functions share:
//
// RESULTS. A function that can fail returns an esker_status and takes a last argument `error`. It sets
// *error to an error with a text, which the caller frees with esker_error_free, or to NULL if it
// returns ESKER_OK or ESKER_NOT_FOUND. So *error needs no value before the call, but an error that is
// still in it is not freed. `error` may be NULL. An argument whose name ends with _out is where a
// result is put: a handle or bytes there are NULL after a failure.
//
// POINTERS. An argument that must not be NULL and is NULL gives ESKER_INVALID_ARGUMENT. Bytes are a
// pointer and a length; with length 0 the pointer may be NULL. A `const char *` is a text that ends with
// a zero: UTF-8, except for paths. Arguments are read during the call only: nothing keeps them.
//
// HANDLES. A handle that a function makes is the caller's, who frees it once, by the function that the
// comment of the maker names. A freed handle must not be used. Handles may be freed in any order:
// one that outlives its database is safe, and its calls return ESKER_CLOSED.
//
// THREADS. An esker_db, esker_keyspace, esker_snapshot, esker_prepared, esker_error and settings that
// no thread changes may be used by several threads at once. An esker_batch, esker_cursor,
// esker_value_reader and esker_transaction may be used by one thread at once, and may move between
// threads. No handle may be freed while another call uses it.
//
// PANICS AND FORKS. No panic of the library crosses this border: such a call returns ESKER_PANICKED.
// A forked child gets ESKER_FORKED for the handles of its parent; it may free them.


#ifndef ESKER_H
#define ESKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The first number of the version of this header.
#define ESKER_VERSION_MAJOR 0

// The second number of the version of this header.
#define ESKER_VERSION_MINOR 1

// The third number of the version of this header.
#define ESKER_VERSION_PATCH 0

// Of `esker_begin`: conflicts are checked by the commit, without locks until then.
#define ESKER_OPTIMISTIC 1

// Of `esker_begin`: each read sees what is committed when it is made.
#define ESKER_READ_COMMITTED 2

// Of `esker_begin`: the outcome is that of some serial order of the transactions.
#define ESKER_SERIALIZABLE 4

// What a call returns. Numbers never change their meaning; later releases may add some, so treat an
// unknown one as a failure.
typedef enum esker_status {
    // The call did what was asked.
    ESKER_OK = 0,
    // There is no such key, or the cursor is past the end. This is an answer and no failure: `*error`
    // is NULL.
    ESKER_NOT_FOUND = 1,
    // An argument is not valid: NULL where it is not allowed, text that is not UTF-8, an empty range,
    // unknown flags.
    ESKER_INVALID_ARGUMENT = 2,
    // A setting has an unknown name or a value that is not valid.
    ESKER_INVALID_SETTING = 3,
    // The database of the handle is closed.
    ESKER_CLOSED = 4,
    // The database is open for reading.
    ESKER_READ_ONLY = 5,
    // The buffer of the caller is too small.
    ESKER_BUFFER_TOO_SMALL = 6,
    // The library has a bug: the call panicked. Close the database and open it again.
    ESKER_PANICKED = 7,
    // The operating system failed an operation on a file.
    ESKER_IO = 10,
    // The disk is full, or a quota is exceeded.
    ESKER_OUT_OF_SPACE = 11,
    // A file is damaged.
    ESKER_CORRUPTION = 12,
    // The storage has permanently lost a part of a file.
    ESKER_LOST = 13,
    // The log is torn, and the setting `recovery` is `strict`.
    ESKER_TORN_LOG = 14,
    // The log failed, so further writes are rejected until the database is opened again.
    ESKER_LOG_FAILED = 15,
    // The directory holds no database, or files of another program.
    ESKER_NOT_A_DATABASE = 16,
    // The directory holds a database already.
    ESKER_DATABASE_EXISTS = 17,
    // A newer release wrote the files.
    ESKER_NEWER_FORMAT = 18,
    // Another process, or another handle of this one, has the database or the repository open.
    ESKER_LOCKED = 19,
    // The handle was made before a fork, and this is the child.
    ESKER_FORKED = 20,
    // The pool of persistent memory cannot be used.
    ESKER_POOL_REFUSED = 21,
    // The files are encrypted, or the keys are not theirs.
    ESKER_ENCRYPTION = 22,
    // There is no keyspace of this name, or it was dropped.
    ESKER_UNKNOWN_KEYSPACE = 30,
    // The keyspace exists with other settings.
    ESKER_KEYSPACE_SETTINGS_DIFFER = 31,
    // No keyspace can have this name, or this one cannot be dropped.
    ESKER_BAD_KEYSPACE_NAME = 32,
    // The handle is of another database, or of an earlier open.
    ESKER_FOREIGN_HANDLE = 33,
    // A key, a value or a batch exceeds its limit.
    ESKER_TOO_LARGE = 34,
    // The keyspace has no merge operator.
    ESKER_NO_MERGE_OPERATOR = 35,
    // The merge operator rejected an operand.
    ESKER_MERGE_FAILED = 36,
    // A transaction conflicts with another: roll back and run it again.
    ESKER_CONFLICT = 40,
    // Transactions waited for each other in a cycle: roll back and run this one again.
    ESKER_DEADLOCK = 41,
    // Another transaction held a lock for too long: roll back and run this one again.
    ESKER_LOCK_TIMEOUT = 42,
    // The transaction was committed or rolled back already.
    ESKER_TRANSACTION_ENDED = 43,
    // The transaction has no savepoint.
    ESKER_NO_SAVEPOINT = 44,
    // The id of a prepared transaction is not valid, in use, or unknown.
    ESKER_PREPARED = 45,
    // The repository is none, is one of another database, or lacks the backup.
    ESKER_BACKUP = 50,
    // The database is no follower, or cannot follow on.
    ESKER_FOLLOWER = 51,
    // A secondary index does not allow the call.
    ESKER_INDEX = 52,
    // Another failure. The text describes it.
    ESKER_OTHER = 99,
} esker_status;

// Writes that are applied together, also to several keyspaces. One thread at once may use it.
typedef struct esker_batch esker_batch;

// A position in the entries of a range, in order of their keys. One thread at once may use it.
//
// A new cursor has no position. It reads at a snapshot of its own, unless it was given one, and keeps
// it until the cursor is freed.
typedef struct esker_cursor esker_cursor;

// An open database. Threads may share it.
typedef struct esker_db esker_db;

// An error: its number and its text. Immutable, so threads may share it.
typedef struct esker_error esker_error;

// A keyspace of an open database. Threads may share it. It does not keep the database open.
typedef struct esker_keyspace esker_keyspace;

// The settings of a keyspace, which it gets when it is created: see `esker_keyspace_settings_set`.
typedef struct esker_keyspace_settings esker_keyspace_settings;

// A list of prepared transactions, as they were when it was made. Threads may share it.
typedef struct esker_prepared esker_prepared;

// The settings of a database, which each open gets: see `esker_settings_set`.
typedef struct esker_settings esker_settings;

// A consistent view of all keyspaces at one point in time. Threads may share it. Compaction keeps what
// it sees, so free it when it is no longer needed.
typedef struct esker_snapshot esker_snapshot;

// Reads and writes of all keyspaces that commit together or not at all. One thread at once may use it.
typedef struct esker_transaction esker_transaction;

// A position in a value that is read a part at a time. One thread at once may use it.
//
// What it reads never changes, also if the key is overwritten or deleted meanwhile: the file of the
// value stays until the reader is freed. It holds 256 KiB of a large value.
typedef struct esker_value_reader esker_value_reader;

// Bytes that the library returned: a value, or a text. The caller frees them with `esker_bytes_free`.
//
// A copy of the struct refers to the same bytes, so free one of them only. The bytes live until then,
// also after the database is closed. A text ends with a zero, which `len` does not count.
typedef struct esker_bytes {
    // The bytes. Never NULL after a call that returned `ESKER_OK`; NULL after any other.
    const uint8_t *data;
    // Their number.
    size_t len;
    // What the library frees.
    void *owner;
    // What the library needs to free it.
    size_t owner_len;
} esker_bytes;

// Of `esker_put_reader`: puts the next bytes of a value into `buffer`, at most `capacity`, and returns
// their number: 0 at the end, and less than 0 if it fails. `context` is what the caller gave. It must
// return, and not by `longjmp` or an exception.
typedef ptrdiff_t (*esker_read_fn)(void *context, uint8_t *buffer, size_t capacity);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of the library that the program runs with, such as "0.1.0". The text is static.
const char *esker_version(void);

// Whether the same transaction may succeed if it runs again from its start. True for
// `ESKER_CONFLICT`, `ESKER_DEADLOCK` and `ESKER_LOCK_TIMEOUT`.
bool esker_is_transient(int32_t status);

// Returns the number of the error, as the failed call returned it. `ESKER_OK` if `error` is NULL.
enum esker_status esker_error_status(const struct esker_error *error);

// Returns the text of the error: what failed, why, and what to do. It is UTF-8, ends with a zero, and
// lives as long as the error. Empty if `error` is NULL.
const char *esker_error_text(const struct esker_error *error);

// Frees an error. NULL is allowed.
void esker_error_free(struct esker_error *error);

// Frees what a call put into `bytes`, and sets `*bytes` to nothing, so that a second call does
// nothing. NULL is allowed.
void esker_bytes_free(struct esker_bytes *bytes);

// Makes the default settings of a database. The caller frees them with `esker_settings_free`.
enum esker_status esker_settings_new(struct esker_settings **settings_out,
                                     struct esker_error **error);

// Sets the setting `name` to the value that `value` has as text, such as "memory_bytes" to "256MiB".
//
// | name | values |
// |---|---|
// | log | files, files:DIR, none, pmem:FILE, emulated-pmem:FILE |
// | sync | always, os, an interval such as 100ms |
// | recovery | prefix, strict |
// | segment_bytes, memory_bytes | a size such as 65536, 512K or 64MiB |
// | dram_table_bytes | auto, a size |
// | sealed_segments, background_threads | a number |
// | max_open_files | auto, a number |
// | forwarding | on-flush, always, adaptive |
// | background_write_rate | unlimited, 20MiB, 5MiB..100MiB |
// | delete_age_max, slow_call | off, a time such as 500us, 10ms, 2s or 30d |
// | direct_reads, answers_requests | true, false |
// | default.NAME | a setting of the default keyspace, if the database is new |
//
// The page "Settings" of the guide describes them. Ranges are checked by the open.
//
// `ESKER_INVALID_SETTING` if there is no such setting or value: the text says which there are, and
// nothing is changed. One thread at once may change settings.
enum esker_status esker_settings_set(struct esker_settings *settings,
                                     const char *name,
                                     const char *value,
                                     struct esker_error **error);

// Frees settings. Databases that were opened with them keep theirs. NULL is allowed.
void esker_settings_free(struct esker_settings *settings);

// Makes the default settings of a keyspace. The caller frees them with
// `esker_keyspace_settings_free`.
enum esker_status esker_keyspace_settings_new(struct esker_keyspace_settings **settings_out,
                                              struct esker_error **error);

// Sets the setting `name` of a keyspace to the value that `value` has as text.
//
// | name | values |
// |---|---|
// | shape | leveled, leveled:10, tiered:8, windowed:1h, windowed:1h:BYTES |
// | dedup | none, per-level:1.6, space-goal:1.2 |
// | compression | none, lz4, zstd |
// | filter_bits | a number of 0 to 32 |
// | merge | none, add_i64, max, min, append, set_union, hyper_log_log |
// | ttl | none, a time such as 90s, 12h or 7d |
// | separation_threshold | none, a size such as 4KiB |
//
// Errors and threads are those of `esker_settings_set`.
enum esker_status esker_keyspace_settings_set(struct esker_keyspace_settings *settings,
                                              const char *name,
                                              const char *value,
                                              struct esker_error **error);

// Frees settings. Keyspaces that were created with them keep theirs. NULL is allowed.
void esker_keyspace_settings_free(struct esker_keyspace_settings *settings);

// Opens the database in the directory `dir`, or creates it if the directory is missing or empty.
//
// `settings` may be NULL for the defaults. The caller closes the database with `esker_close`.
//
// `ESKER_INVALID_SETTING` if a setting is out of range; `ESKER_LOCKED` if the database is open for
// writing elsewhere; `ESKER_NOT_A_DATABASE` if the directory holds other files, such as those of a
// RocksDB database; `ESKER_CORRUPTION`, `ESKER_TORN_LOG`, `ESKER_NEWER_FORMAT`, `ESKER_IO`.
enum esker_status esker_open(const char *dir,
                             const struct esker_settings *settings,
                             struct esker_db **db_out,
                             struct esker_error **error);

// Opens the database in `dir` as `esker_open` does, but creates none: `ESKER_NOT_A_DATABASE` if there
// is none.
enum esker_status esker_open_existing(const char *dir,
                                      const struct esker_settings *settings,
                                      struct esker_db **db_out,
                                      struct esker_error **error);

// Opens the database in `dir` for reading, at its present state. Another process may write to it at
// the same time.
//
// Later calls that would change the database return `ESKER_READ_ONLY`. Errors: those of
// `esker_open_existing`, without `ESKER_LOCKED`.
enum esker_status esker_open_read_only(const char *dir,
                                       const struct esker_settings *settings,
                                       struct esker_db **db_out,
                                       struct esker_error **error);

// Opens the database in `dir` as a follower: for reading, while another process writes to it, whose
// writes become visible here with `esker_catch_up`.
//
// With an `interval_ms` above 0, a thread catches up that often, in milliseconds. Errors: those of
// `esker_open_read_only`.
enum esker_status esker_open_follower(const char *dir,
                                      const struct esker_settings *settings,
                                      uint64_t interval_ms,
                                      struct esker_db **db_out,
                                      struct esker_error **error);

// Shows what the other process has written up to now. Sets `*through_out` to the number of the last
// write that reads see; `through_out` may be NULL.
//
// `ESKER_FOLLOWER` if the database was not opened as a follower, or another database is in its place
// now; `ESKER_CORRUPTION`, `ESKER_IO`, `ESKER_CLOSED`. After an error, reads see what they saw before.
enum esker_status esker_catch_up(const struct esker_db *db,
                                 uint64_t *through_out,
                                 struct esker_error **error);

// Closes the database: flushes what is in memory to tables, stops background work, releases the files,
// and frees `db`, whatever it returns. NULL is allowed.
//
// Handles that were made from it stay valid, and return `ESKER_CLOSED`; free each of them before or
// after. No other call with `db` itself may be running. The error is that of the last flush:
// acknowledged writes are in the log, and the next open recovers them.
enum esker_status esker_close(struct esker_db *db,
                              struct esker_error **error);

// Writes a batch: all of it, or nothing. The batch stays as it is, and may be written again.
//
// `ESKER_TOO_LARGE` if it exceeds its limits, `ESKER_FOREIGN_HANDLE` if a keyspace in it is of another
// database, `ESKER_INVALID_ARGUMENT` for an empty range; otherwise the errors of `esker_put`.
enum esker_status esker_write(const struct esker_db *db,
                              const struct esker_batch *batch,
                              struct esker_error **error);

// Makes all writes so far durable: they survive power loss.
//
// `ESKER_LOG_FAILED` if that is not possible, `ESKER_READ_ONLY`, `ESKER_CLOSED`.
enum esker_status esker_sync(const struct esker_db *db, struct esker_error **error);

// Flushes all writes so far to tables, and waits for it.
//
// `ESKER_OUT_OF_SPACE` or `ESKER_IO` if the tables cannot be written, `ESKER_LOG_FAILED`,
// `ESKER_READ_ONLY`, `ESKER_CLOSED`.
enum esker_status esker_flush(const struct esker_db *db, struct esker_error **error);

// Flushes, and compacts each keyspace into one run without obsolete data. It takes as long as all
// tables take to be rewritten, in the calling thread. With a `keyspace`, only that one is compacted;
// NULL stands for all.
//
// Errors: those of `esker_flush`; `ESKER_CORRUPTION` if a table is damaged.
enum esker_status esker_compact(const struct esker_db *db,
                                const struct esker_keyspace *keyspace,
                                struct esker_error **error);

// Writes a copy of the database, as it is now, into the directory `dir`, which must be missing or
// empty. Tables are hard links where that is possible.
//
// `ESKER_DATABASE_EXISTS` or `ESKER_NOT_A_DATABASE` if `dir` holds something; the errors of
// `esker_flush`. After an error nothing is left in `dir`.
enum esker_status esker_checkpoint(const struct esker_db *db,
                                   const char *dir,
                                   struct esker_error **error);

// Changes a setting while the database is open.
//
// Names are background_threads, background_write_rate, memory_bytes, slow_call and sync, which last
// until the close, and KEYSPACE.compression, KEYSPACE.dedup, KEYSPACE.filter_bits and
// KEYSPACE.separation_threshold, which are stored. Values are those of `esker_settings_set`.
//
// `ESKER_INVALID_SETTING` if there is no such setting or value, or it cannot be changed now;
// `ESKER_UNKNOWN_KEYSPACE`, `ESKER_READ_ONLY`, `ESKER_CLOSED`.
enum esker_status esker_set(const struct esker_db *db,
                            const char *name,
                            const char *value,
                            struct esker_error **error);

// Returns the settings that `esker_set` changes, as lines NAME=VALUE. The caller frees the text.
//
// `ESKER_CLOSED`, `ESKER_FORKED`.
enum esker_status esker_current_settings(const struct esker_db *db,
                                         struct esker_bytes *text_out,
                                         struct esker_error **error);

// Returns the error that stops or limits background work now, such as a full disk or a damaged table.
// NULL if there is none. The caller frees it.
enum esker_status esker_background_error(const struct esker_db *db,
                                         struct esker_error **error_out,
                                         struct esker_error **error);

// Opens the keyspace `name`, or creates it if it is missing. The caller frees the handle with
// `esker_keyspace_free`.
//
// With `settings`, an existing keyspace must have these: otherwise `ESKER_KEYSPACE_SETTINGS_DIFFER`,
// and the text lists the differences. With NULL, an existing keyspace is opened whatever its settings
// are, and a new one gets the defaults. `ESKER_BAD_KEYSPACE_NAME`, `ESKER_INVALID_SETTING`,
// `ESKER_READ_ONLY` if it is missing and cannot be created, `ESKER_CLOSED`.
enum esker_status esker_keyspace_create(const struct esker_db *db,
                                        const char *name,
                                        const struct esker_keyspace_settings *settings,
                                        struct esker_keyspace **keyspace_out,
                                        struct esker_error **error);

// Opens the keyspace `name`, whatever its settings are. The caller frees the handle.
//
// `ESKER_UNKNOWN_KEYSPACE` if it is missing, `ESKER_CLOSED`.
enum esker_status esker_keyspace_open(const struct esker_db *db,
                                      const char *name,
                                      struct esker_keyspace **keyspace_out,
                                      struct esker_error **error);

// Returns the keyspace "default", which each database has. The caller frees the handle.
enum esker_status esker_keyspace_default(const struct esker_db *db,
                                         struct esker_keyspace **keyspace_out,
                                         struct esker_error **error);

// Removes a keyspace and its data. Its handles stay valid, and return `ESKER_UNKNOWN_KEYSPACE`; free
// them.
//
// `ESKER_BAD_KEYSPACE_NAME` for the default keyspace, `ESKER_FOREIGN_HANDLE`, `ESKER_READ_ONLY`,
// `ESKER_CLOSED`, `ESKER_IO`.
enum esker_status esker_keyspace_drop(const struct esker_db *db,
                                      const struct esker_keyspace *keyspace,
                                      struct esker_error **error);

// Returns the names of all keyspaces, one on a line. A name has no control character. The caller frees
// the text.
enum esker_status esker_keyspace_names(const struct esker_db *db,
                                       struct esker_bytes *text_out,
                                       struct esker_error **error);

// Frees the handle of a keyspace. NULL is allowed.
void esker_keyspace_free(struct esker_keyspace *keyspace);

// Reads the value of `key`. The caller frees it with `esker_bytes_free`.
//
// `ESKER_NOT_FOUND` if the key does not exist; `ESKER_CLOSED`, `ESKER_UNKNOWN_KEYSPACE`,
// `ESKER_FORKED`, `ESKER_TOO_LARGE` for a key of more than 64 KiB; `ESKER_IO`, `ESKER_CORRUPTION` or
// `ESKER_LOST` if a table cannot be read; `ESKER_MERGE_FAILED` or `ESKER_NO_MERGE_OPERATOR` if
// operands cannot be merged.
enum esker_status esker_get(const struct esker_keyspace *keyspace,
                            const uint8_t *key,
                            size_t key_len,
                            struct esker_bytes *value_out,
                            struct esker_error **error);

// Reads the value of `key` into the buffer of the caller, and sets `*len_out` to its length.
//
// `ESKER_BUFFER_TOO_SMALL` if it is longer than `capacity`; `*len_out` is the length nevertheless, and
// the buffer is as it was. Otherwise as `esker_get`. `buffer` may be NULL if `capacity` is 0.
enum esker_status esker_get_into(const struct esker_keyspace *keyspace,
                                 const uint8_t *key,
                                 size_t key_len,
                                 uint8_t *buffer,
                                 size_t capacity,
                                 size_t *len_out,
                                 struct esker_error **error);

// Whether `key` exists: `ESKER_OK` or `ESKER_NOT_FOUND`. Errors: those of `esker_get`.
enum esker_status esker_contains(const struct esker_keyspace *keyspace,
                                 const uint8_t *key,
                                 size_t key_len,
                                 struct esker_error **error);

// Reads the values of `count` keys, all at one point in time, which is faster than as many calls. The
// starts of the keys are in `keys`, their lengths in `key_lens`.
//
// `values_out` has `count` places, one for each key in the same order. A key that does not exist gets
// NULL there, and the call returns `ESKER_OK` nevertheless. The caller frees each value with
// `esker_bytes_free`. Errors: those of `esker_get`; no value is given then.
enum esker_status esker_multi_get(const struct esker_keyspace *keyspace,
                                  const uint8_t *const *keys,
                                  const size_t *key_lens,
                                  size_t count,
                                  struct esker_bytes *values_out,
                                  struct esker_error **error);

// Counts the keys from `start` on, up to and without `end`. NULL with length 0 is no bound. Reads all of
// them, so it takes as long as a scan.
//
// Errors: those of `esker_get`.
enum esker_status esker_count(const struct esker_keyspace *keyspace,
                              const uint8_t *start,
                              size_t start_len,
                              const uint8_t *end,
                              size_t end_len,
                              uint64_t *count_out,
                              struct esker_error **error);

// Estimates the number of keys, without a scan. Expect an error of a few percent. A write that is not
// flushed yet counts as one key, also if it deletes or overwrites one.
//
// `ESKER_UNKNOWN_KEYSPACE`, `ESKER_CLOSED`, `ESKER_FORKED`; `ESKER_IO` or `ESKER_CORRUPTION` if a table
// cannot be opened.
enum esker_status esker_approximate_len(const struct esker_keyspace *keyspace,
                                        uint64_t *len_out,
                                        struct esker_error **error);

// Sets `key` to `value`. A key has at most 64 KiB, and may be empty.
//
// `ESKER_TOO_LARGE` if key or value exceed their limits; `ESKER_READ_ONLY`, `ESKER_CLOSED`,
// `ESKER_UNKNOWN_KEYSPACE`, `ESKER_FORKED`; `ESKER_LOG_FAILED` if the log cannot be written, now or
// earlier; `ESKER_OUT_OF_SPACE`, `ESKER_IO`; `ESKER_INDEX` if an index of the keyspace does not allow it.
enum esker_status esker_put(const struct esker_keyspace *keyspace,
                            const uint8_t *key,
                            size_t key_len,
                            const uint8_t *value,
                            size_t value_len,
                            struct esker_error **error);

// Sets `key` to `value` for `ttl_ms` milliseconds. Then the key does not exist. Errors: those of
// `esker_put`.
enum esker_status esker_put_with_ttl(const struct esker_keyspace *keyspace,
                                     const uint8_t *key,
                                     size_t key_len,
                                     const uint8_t *value,
                                     size_t value_len,
                                     uint64_t ttl_ms,
                                     struct esker_error **error);

// Sets `key` to `value` if the key does not exist. Otherwise changes nothing, and gives the present
// value to `present_out`, which may be NULL; the caller frees it.
//
// Sets `*put_out` to whether the value was put. It is a transaction of its own: the errors are those of
// `esker_put` and of `esker_transaction_put`.
enum esker_status esker_put_if_absent(const struct esker_db *db,
                                      const struct esker_keyspace *keyspace,
                                      const uint8_t *key,
                                      size_t key_len,
                                      const uint8_t *value,
                                      size_t value_len,
                                      bool *put_out,
                                      struct esker_bytes *present_out,
                                      struct esker_error **error);

// Merges `operand` into the value of `key`, by the merge operator of the keyspace, without a read.
//
// add_i64 adds integers of 8 bytes, little-endian; max and min keep the greatest or the least; append
// appends; set_union and hyper_log_log unite sets and sketches. The page "Merge operators" of the guide
// describes them.
//
// `ESKER_NO_MERGE_OPERATOR` if the keyspace has none, `ESKER_MERGE_FAILED` if the operand is not
// valid; otherwise the errors of `esker_put`.
enum esker_status esker_merge(const struct esker_keyspace *keyspace,
                              const uint8_t *key,
                              size_t key_len,
                              const uint8_t *operand,
                              size_t operand_len,
                              struct esker_error **error);

// Deletes `key`, whether it exists or not. Errors: those of `esker_put`.
enum esker_status esker_delete(const struct esker_keyspace *keyspace,
                               const uint8_t *key,
                               size_t key_len,
                               struct esker_error **error);

// Deletes all keys from `start` on, up to and without `end`. NULL with length 0 is no bound. It costs
// about as much as one put.
//
// `ESKER_INVALID_ARGUMENT` if `end` is not after `start`; otherwise the errors of `esker_put`.
enum esker_status esker_delete_range(const struct esker_keyspace *keyspace,
                                     const uint8_t *start,
                                     size_t start_len,
                                     const uint8_t *end,
                                     size_t end_len,
                                     struct esker_error **error);

// Makes an empty batch. The caller frees it with `esker_batch_free`.
enum esker_status esker_batch_new(struct esker_batch **batch_out, struct esker_error **error);

// Adds a write that sets `key` to `value`. Both are copied.
//
// Only NULL is an error here and in the other functions that add to a batch: limits are checked by
// `esker_write`.
enum esker_status esker_batch_put(struct esker_batch *batch,
                                  const struct esker_keyspace *keyspace,
                                  const uint8_t *key,
                                  size_t key_len,
                                  const uint8_t *value,
                                  size_t value_len,
                                  struct esker_error **error);

// Adds a write that sets `key` to `value` for `ttl_ms` milliseconds, which begin when the batch is
// written.
enum esker_status esker_batch_put_with_ttl(struct esker_batch *batch,
                                           const struct esker_keyspace *keyspace,
                                           const uint8_t *key,
                                           size_t key_len,
                                           const uint8_t *value,
                                           size_t value_len,
                                           uint64_t ttl_ms,
                                           struct esker_error **error);

// Adds a write that merges `operand` into the value of `key`: see `esker_merge`.
enum esker_status esker_batch_merge(struct esker_batch *batch,
                                    const struct esker_keyspace *keyspace,
                                    const uint8_t *key,
                                    size_t key_len,
                                    const uint8_t *operand,
                                    size_t operand_len,
                                    struct esker_error **error);

// Adds a write that deletes `key`.
enum esker_status esker_batch_delete(struct esker_batch *batch,
                                     const struct esker_keyspace *keyspace,
                                     const uint8_t *key,
                                     size_t key_len,
                                     struct esker_error **error);

// Adds a write that deletes all keys from `start` on, up to and without `end`. NULL with length 0 is
// no bound.
enum esker_status esker_batch_delete_range(struct esker_batch *batch,
                                           const struct esker_keyspace *keyspace,
                                           const uint8_t *start,
                                           size_t start_len,
                                           const uint8_t *end,
                                           size_t end_len,
                                           struct esker_error **error);

// Whether the batch survives power loss once `esker_write` returns, whatever the setting `sync` is.
// The default is false.
enum esker_status esker_batch_set_sync(struct esker_batch *batch,
                                       bool sync,
                                       struct esker_error **error);

// Returns the number of writes in the batch. 0 if `batch` is NULL.
size_t esker_batch_len(const struct esker_batch *batch);

// Removes all writes from the batch, and keeps its memory for others. NULL is allowed.
void esker_batch_clear(struct esker_batch *batch);

// Frees a batch. What was not written is not written. NULL is allowed.
void esker_batch_free(struct esker_batch *batch);

// Takes a snapshot. Nothing is copied. The caller frees it with `esker_snapshot_free`.
//
// `ESKER_CLOSED`.
enum esker_status esker_snapshot_new(const struct esker_db *db,
                                     struct esker_snapshot **snapshot_out,
                                     struct esker_error **error);

// Reads the value that `key` had at the snapshot. The caller frees it with `esker_bytes_free`.
//
// `ESKER_FOREIGN_HANDLE` if snapshot and keyspace are of two databases; otherwise as `esker_get`.
enum esker_status esker_snapshot_get(const struct esker_snapshot *snapshot,
                                     const struct esker_keyspace *keyspace,
                                     const uint8_t *key,
                                     size_t key_len,
                                     struct esker_bytes *value_out,
                                     struct esker_error **error);

// Reads the values that `count` keys had at the snapshot, as `esker_multi_get` does.
//
// `ESKER_FOREIGN_HANDLE` if snapshot and keyspace are of two databases; otherwise as `esker_multi_get`.
enum esker_status esker_snapshot_multi_get(const struct esker_snapshot *snapshot,
                                           const struct esker_keyspace *keyspace,
                                           const uint8_t *const *keys,
                                           const size_t *key_lens,
                                           size_t count,
                                           struct esker_bytes *values_out,
                                           struct esker_error **error);

// Frees a snapshot. Cursors that read at it keep their own. NULL is allowed.
void esker_snapshot_free(struct esker_snapshot *snapshot);

// Sets `key` to all that `read` returns up to its end, at most 4 GiB. Sets `*len_out` to how many bytes
// that is; `len_out` may be NULL.
//
// A value that is too large for the log is written to a file of its own, a part at a time, and becomes
// visible at once. It survives power loss when this returns. `ESKER_IO` if `read` fails,
// `ESKER_INVALID_ARGUMENT` if it returns more than `capacity`; `ESKER_TOO_LARGE` if the value is larger
// than 4 GiB, or the keyspace takes no large values; otherwise the errors of `esker_put`. After an error
// the key is as it was.
enum esker_status esker_put_reader(const struct esker_keyspace *keyspace,
                                   const uint8_t *key,
                                   size_t key_len,
                                   esker_read_fn read,
                                   void *context,
                                   uint64_t *len_out,
                                   struct esker_error **error);

// Makes a reader of the value of `key`, at its start. The caller frees it with
// `esker_value_reader_free`. A large value is not read into memory. Errors: those of `esker_get`.
enum esker_status esker_get_reader(const struct esker_keyspace *keyspace,
                                   const uint8_t *key,
                                   size_t key_len,
                                   struct esker_value_reader **reader_out,
                                   struct esker_error **error);

// Makes a reader of the value that `key` had at the snapshot. It may outlive the snapshot. Errors: those
// of `esker_snapshot_get`.
enum esker_status esker_snapshot_get_reader(const struct esker_snapshot *snapshot,
                                            const struct esker_keyspace *keyspace,
                                            const uint8_t *key,
                                            size_t key_len,
                                            struct esker_value_reader **reader_out,
                                            struct esker_error **error);

// Returns the length of the value, in bytes. 0 if `reader` is NULL.
uint64_t esker_value_reader_len(const struct esker_value_reader *reader);

// Reads the next bytes of the value into `buffer`, and sets `*read_out` to their number: `capacity`, or
// fewer at the end of the value. `buffer` may be NULL if `capacity` is 0.
//
// `ESKER_CORRUPTION` or `ESKER_IO` if they cannot be read, `ESKER_CLOSED`. After an error the position is
// as it was.
enum esker_status esker_value_reader_read(struct esker_value_reader *reader,
                                          uint8_t *buffer,
                                          size_t capacity,
                                          size_t *read_out,
                                          struct esker_error **error);

// Moves the reader to the byte `offset` of the value. Behind the end there is nothing to read.
enum esker_status esker_value_reader_seek(struct esker_value_reader *reader,
                                          uint64_t offset,
                                          struct esker_error **error);

// Frees a reader. NULL is allowed.
void esker_value_reader_free(struct esker_value_reader *reader);

// Makes a cursor over the keys from `start` on, up to and without `end`. NULL with length 0 is no
// bound. Both are copied. The caller frees the cursor with `esker_cursor_free`.
//
// It reads at `snapshot`, or at a new snapshot if that is NULL. `ESKER_CLOSED`,
// `ESKER_UNKNOWN_KEYSPACE`, `ESKER_FOREIGN_HANDLE`; the errors of `esker_get`.
enum esker_status esker_cursor_range(const struct esker_keyspace *keyspace,
                                     const struct esker_snapshot *snapshot,
                                     const uint8_t *start,
                                     size_t start_len,
                                     const uint8_t *end,
                                     size_t end_len,
                                     struct esker_cursor **cursor_out,
                                     struct esker_error **error);

// Makes a cursor over the keys that start with `prefix`. Otherwise as `esker_cursor_range`.
enum esker_status esker_cursor_prefix(const struct esker_keyspace *keyspace,
                                      const struct esker_snapshot *snapshot,
                                      const uint8_t *prefix,
                                      size_t prefix_len,
                                      struct esker_cursor **cursor_out,
                                      struct esker_error **error);

// Makes a cursor over the keys from `start` on, up to and without `end`, as the transaction sees them,
// its own writes included. NULL with length 0 is no bound.
//
// It sees later writes of the transaction, too. It reads ahead as many entries as it has passed, at
// most 64: for a serializable transaction they count as read. It may be freed before or after the
// transaction, whose end it returns as `ESKER_TRANSACTION_ENDED`. Use it in the thread of the
// transaction.
enum esker_status esker_transaction_cursor_range(const struct esker_transaction *transaction,
                                                 const struct esker_keyspace *keyspace,
                                                 const uint8_t *start,
                                                 size_t start_len,
                                                 const uint8_t *end,
                                                 size_t end_len,
                                                 struct esker_cursor **cursor_out,
                                                 struct esker_error **error);

// Makes a cursor over the keys that start with `prefix`, as the transaction sees them. Otherwise as
// `esker_transaction_cursor_range`.
enum esker_status esker_transaction_cursor_prefix(const struct esker_transaction *transaction,
                                                  const struct esker_keyspace *keyspace,
                                                  const uint8_t *prefix,
                                                  size_t prefix_len,
                                                  struct esker_cursor **cursor_out,
                                                  struct esker_error **error);

// Moves to the first entry of the range.
//
// This and the other moves return `ESKER_OK` if the cursor is on an entry then, and `ESKER_NOT_FOUND`
// if there is none: it has no position then, nor after an error. `ESKER_CLOSED` once the database is
// closed; the errors of `esker_get`.
enum esker_status esker_cursor_first(struct esker_cursor *cursor,
                                     struct esker_error **error);

// Moves to the last entry of the range.
enum esker_status esker_cursor_last(struct esker_cursor *cursor, struct esker_error **error);

// Moves to the first entry of the range whose key is `key` or after it.
enum esker_status esker_cursor_seek(struct esker_cursor *cursor,
                                    const uint8_t *key,
                                    size_t key_len,
                                    struct esker_error **error);

// Moves to the last entry of the range whose key is `key` or before it.
enum esker_status esker_cursor_seek_back(struct esker_cursor *cursor,
                                         const uint8_t *key,
                                         size_t key_len,
                                         struct esker_error **error);

// Moves to the next entry. A cursor without a position stays without one.
enum esker_status esker_cursor_next(struct esker_cursor *cursor, struct esker_error **error);

// Moves to the previous entry. A cursor without a position stays without one.
enum esker_status esker_cursor_prev(struct esker_cursor *cursor, struct esker_error **error);

// Returns the current entry without a copy. The bytes belong to the cursor, and are valid until it is
// moved or freed, also after the database is closed.
//
// `ESKER_NOT_FOUND` if the cursor has no position. `value_out` and `value_len_out` may be NULL.
enum esker_status esker_cursor_entry(const struct esker_cursor *cursor,
                                     const uint8_t **key_out,
                                     size_t *key_len_out,
                                     const uint8_t **value_out,
                                     size_t *value_len_out,
                                     struct esker_error **error);

// Frees a cursor. NULL is allowed.
void esker_cursor_free(struct esker_cursor *cursor);

// Begins a transaction. The caller ends it with `esker_commit` or `esker_rollback`, and frees it with
// `esker_transaction_free`, which also rolls back.
//
// `flags` are 0 or some of `ESKER_OPTIMISTIC` and one of `ESKER_READ_COMMITTED` and
// `ESKER_SERIALIZABLE`. The default is pessimistic, with snapshot isolation. `lock_timeout_ms` is how
// long to wait for a lock, in milliseconds; 0 stands for a second.
//
// `ESKER_INVALID_ARGUMENT` for other flags, `ESKER_CLOSED`, `ESKER_FORKED`.
enum esker_status esker_begin(const struct esker_db *db,
                              uint32_t flags,
                              uint64_t lock_timeout_ms,
                              struct esker_transaction **transaction_out,
                              struct esker_error **error);

// Reads the value of `key` as the transaction sees it, its own writes included. The caller frees it
// with `esker_bytes_free`.
//
// `ESKER_TRANSACTION_ENDED` after the end; otherwise as `esker_get`.
enum esker_status esker_transaction_get(const struct esker_transaction *transaction,
                                        const struct esker_keyspace *keyspace,
                                        const uint8_t *key,
                                        size_t key_len,
                                        struct esker_bytes *value_out,
                                        struct esker_error **error);

// Reads as `esker_transaction_get` does, and excludes that others change `key` before the commit: a
// pessimistic transaction locks the key, and the commit of an optimistic one fails after such a change.
//
// `ESKER_CONFLICT`, `ESKER_DEADLOCK` or `ESKER_LOCK_TIMEOUT`: roll back, and run the transaction again.
// The key is locked also if the call returns `ESKER_NOT_FOUND`.
enum esker_status esker_transaction_get_for_update(const struct esker_transaction *transaction,
                                                   const struct esker_keyspace *keyspace,
                                                   const uint8_t *key,
                                                   size_t key_len,
                                                   struct esker_bytes *value_out,
                                                   struct esker_error **error);

// Sets `key` to `value`. A pessimistic transaction locks the key.
//
// `ESKER_CONFLICT`, `ESKER_DEADLOCK` or `ESKER_LOCK_TIMEOUT`: roll back, and run the transaction again.
// `ESKER_TOO_LARGE` if the transaction would exceed the limits of a batch; it stays as it was.
// `ESKER_TRANSACTION_ENDED`, `ESKER_CLOSED`.
enum esker_status esker_transaction_put(const struct esker_transaction *transaction,
                                        const struct esker_keyspace *keyspace,
                                        const uint8_t *key,
                                        size_t key_len,
                                        const uint8_t *value,
                                        size_t value_len,
                                        struct esker_error **error);

// Sets `key` to `value` for `ttl_ms` milliseconds, which begin with the commit. Errors: those of
// `esker_transaction_put`.
enum esker_status esker_transaction_put_with_ttl(const struct esker_transaction *transaction,
                                                 const struct esker_keyspace *keyspace,
                                                 const uint8_t *key,
                                                 size_t key_len,
                                                 const uint8_t *value,
                                                 size_t value_len,
                                                 uint64_t ttl_ms,
                                                 struct esker_error **error);

// Merges `operand` into the value of `key`. A transaction reads the key and puts the result, so merges
// of one key conflict. Errors: those of `esker_merge` and `esker_transaction_put`.
enum esker_status esker_transaction_merge(const struct esker_transaction *transaction,
                                          const struct esker_keyspace *keyspace,
                                          const uint8_t *key,
                                          size_t key_len,
                                          const uint8_t *operand,
                                          size_t operand_len,
                                          struct esker_error **error);

// Deletes `key`. Errors: those of `esker_transaction_put`.
enum esker_status esker_transaction_delete(const struct esker_transaction *transaction,
                                           const struct esker_keyspace *keyspace,
                                           const uint8_t *key,
                                           size_t key_len,
                                           struct esker_error **error);

// Sets a savepoint. Savepoints nest.
//
// `ESKER_TRANSACTION_ENDED`, `ESKER_FORKED`.
enum esker_status esker_transaction_set_savepoint(const struct esker_transaction *transaction,
                                                  struct esker_error **error);

// Undoes all writes since the last savepoint, and removes it. Locks and reads since then stay.
//
// `ESKER_NO_SAVEPOINT` if there is none, `ESKER_TRANSACTION_ENDED`.
enum esker_status esker_transaction_rollback_to_savepoint(const struct esker_transaction *transaction,
                                                          struct esker_error **error);

// Commits: makes all writes visible at once, as durable as any write of the database. The transaction
// has ended then, also after an error.
//
// `ESKER_CONFLICT`, `ESKER_DEADLOCK` or `ESKER_LOCK_TIMEOUT`: nothing is written; begin another
// transaction and do the same again. `ESKER_TRANSACTION_ENDED`; the errors of `esker_write`.
enum esker_status esker_commit(const struct esker_transaction *transaction,
                               struct esker_error **error);

// Discards all writes, releases the locks and ends the transaction.
//
// `ESKER_TRANSACTION_ENDED`.
enum esker_status esker_rollback(const struct esker_transaction *transaction,
                                 struct esker_error **error);

// Prepares the transaction under `id`, of 1 to 255 bytes: the first phase of a two-phase commit. It is
// durable and locked then, and not visible. `esker_commit_prepared` or `esker_rollback_prepared`
// decide, in this process or in a later one. The transaction has ended then, also after an error.
//
// `ESKER_PREPARED` if the id is not valid or in use; otherwise the errors of `esker_commit`. After
// `ESKER_LOG_FAILED`, the next open may find it prepared, with its locks.
enum esker_status esker_prepare(const struct esker_transaction *transaction,
                                const uint8_t *id,
                                size_t id_len,
                                struct esker_error **error);

// Commits the transaction that was prepared under `id`.
//
// `ESKER_PREPARED` if there is none: it was never prepared, or is already decided. The errors of
// `esker_write`.
enum esker_status esker_commit_prepared(const struct esker_db *db,
                                        const uint8_t *id,
                                        size_t id_len,
                                        struct esker_error **error);

// Discards the transaction that was prepared under `id`. Errors: those of `esker_commit_prepared`.
enum esker_status esker_rollback_prepared(const struct esker_db *db,
                                          const uint8_t *id,
                                          size_t id_len,
                                          struct esker_error **error);

// Frees a transaction, and rolls it back if it has not ended. Its cursors return
// `ESKER_TRANSACTION_ENDED` then. NULL is allowed.
void esker_transaction_free(struct esker_transaction *transaction);

// Lists the transactions that `esker_prepare` has prepared and that are not decided, in order of their
// ids. The caller frees the list with `esker_prepared_free`.
//
// `ESKER_CLOSED`, `ESKER_FORKED`; `ESKER_IO` or `ESKER_CORRUPTION` if they cannot be read. Works in a
// database that is open for reading.
enum esker_status esker_prepared_new(const struct esker_db *db,
                                     struct esker_prepared **prepared_out,
                                     struct esker_error **error);

// Returns how many transactions the list has. 0 if `prepared` is NULL.
size_t esker_prepared_len(const struct esker_prepared *prepared);

// Lends the id of the transaction at `index`, which counts from 0. The bytes live as long as the list.
//
// Sets `*is_damaged_out` to whether a repair has lost a part of it, so that it can only be rolled back;
// `is_damaged_out` may be NULL. `ESKER_NOT_FOUND` if the list has no such index.
enum esker_status esker_prepared_entry(const struct esker_prepared *prepared,
                                       size_t index,
                                       const uint8_t **id_out,
                                       size_t *id_len_out,
                                       bool *is_damaged_out,
                                       struct esker_error **error);

// Frees a list of prepared transactions. NULL is allowed.
void esker_prepared_free(struct esker_prepared *prepared);

// Returns the most important statistics as text for people, one subject on a line. The text may change
// between releases. The caller frees it.
//
// `ESKER_CLOSED`.
enum esker_status esker_stats_text(const struct esker_db *db,
                                   struct esker_bytes *text_out,
                                   struct esker_error **error);

// Returns all statistics as a JSON object, with the fields of the Rust type `esker::Stats`. The caller
// frees it.
//
// `ESKER_CLOSED`.
enum esker_status esker_stats_json(const struct esker_db *db,
                                   struct esker_bytes *text_out,
                                   struct esker_error **error);

// Returns all statistics as a page for Prometheus, in its text format 0.0.4. `name` is the label
// `database` of the metrics. Calls are timed for three minutes after each page. The caller frees it.
//
// `ESKER_CLOSED`.
enum esker_status esker_stats_prometheus(const struct esker_db *db,
                                         const char *name,
                                         struct esker_bytes *text_out,
                                         struct esker_error **error);

// Backs up the database into the repository in the directory `repository`, which is created if it is
// missing or empty. Copies the files that no earlier backup has. Sets `*number_out` to the number of
// the backup; `number_out` may be NULL.
//
// `ESKER_BACKUP` if the directory is no repository or one of another database; `ESKER_LOCKED` if
// another call changes it; `ESKER_CORRUPTION` if a table is damaged; `ESKER_IO`,
// `ESKER_OUT_OF_SPACE`, `ESKER_CLOSED`. Earlier backups stay.
enum esker_status esker_backup_create(const struct esker_db *db,
                                      const char *repository,
                                      uint64_t *number_out,
                                      struct esker_error **error);

// Returns the backups of a repository, the oldest first, as lines of three numbers: the number of the
// backup, when it was begun in milliseconds since 1970, and its size in bytes. The caller frees the
// text.
//
// `ESKER_BACKUP` if there is no repository, `ESKER_CORRUPTION`, `ESKER_IO`.
enum esker_status esker_backup_list(const char *repository,
                                    struct esker_bytes *text_out,
                                    struct esker_error **error);

// Makes a database in the directory `dir`, which must be missing or empty, from the backup `number`; 0
// stands for the newest. Each file is compared with its checksum.
//
// `ESKER_BACKUP` if there is no such backup, `ESKER_CORRUPTION` if a file of it is damaged,
// `ESKER_DATABASE_EXISTS` or `ESKER_NOT_A_DATABASE` if `dir` holds something, `ESKER_IO`. After an
// error nothing of the backup is left in `dir`.
enum esker_status esker_backup_restore(const char *repository,
                                       uint64_t number,
                                       const char *dir,
                                       struct esker_error **error);

// Removes all backups but the newest `keep`, and the files that only they used.
//
// `ESKER_INVALID_SETTING` if `keep` is 0; `ESKER_BACKUP`, `ESKER_LOCKED`, `ESKER_CORRUPTION`,
// `ESKER_IO`.
enum esker_status esker_backup_prune(const char *repository,
                                     size_t keep,
                                     struct esker_error **error);

// Makes a database of what can be read in the directory `dir`, and drops the rest. No process may have
// it open. `log_dir` is where its logs are, or NULL if they are in `dir`.
//
// Keeps intact tables, every readable block of damaged ones, and the writes of the log before the first
// damaged one. Damaged files are renamed to NAME.damaged. Where data is lost, an older or a deleted
// value of a key may return: if there is a copy of the database, use the copy. If log files are missing,
// it fails, unless `gives_up_logs`: then the writes in them are lost. Gives a report as JSON to
// `json_out`, which may be NULL; the caller frees it.
//
// `ESKER_NOT_A_DATABASE` if nothing is there to go by; `ESKER_LOCKED`, `ESKER_NEWER_FORMAT`,
// `ESKER_ENCRYPTION`, `ESKER_IO`; `ESKER_CORRUPTION` if a log is missing. After an error, and if nothing
// is damaged, everything is as it was.
enum esker_status esker_repair(const char *dir,
                               const char *log_dir,
                               bool gives_up_logs,
                               struct esker_bytes *json_out,
                               struct esker_error **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ESKER_H */
