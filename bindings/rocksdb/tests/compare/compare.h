/* Random programs of calls of rocksdb/c.h. A program depends on its seed alone: each call draws from
   the seed and its own number, so that calls can be left out without a change of the others. */
#ifndef COMPARE_H
#define COMPARE_H

#include <rocksdb/c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  CALLS = 120,
  FAMILIES = 4, /* The default one is the first. */
  SLOTS = 3,
  KEY_MAX = 8,
  VALUE_MAX = 5000,
  SOLO_KEYS = 4
};

enum kind { PLAIN, OPTIMISTIC, PESSIMISTIC };

struct key {
  char bytes[KEY_MAX];
  size_t length;
};

struct value {
  char bytes[VALUE_MAX];
  size_t length;
};

/* Who reads: gets, an iterator, or one with other writes on top. */
enum reader { VALUES, ALONE, WITH_WRITES };

/* Options of a read. RocksDB keeps pointers to the bounds. */
struct reading {
  rocksdb_readoptions_t *options;
  struct key lower, upper;
  bool is_tailing;
};

struct cursor {
  rocksdb_iterator_t *iterator;
  struct reading reading;
  int family;
};

/* The database and all handles of the program that runs. */
struct database {
  enum kind kind;
  bool has_prefix;
  /* After a rollback to a savepoint, locks differ: no two transactions, and no other writes. */
  bool has_savepoints;
  /* Where RocksDB cannot delete ranges, or does not see that they conflict. */
  bool has_ranges;
  char path[512];
  rocksdb_options_t *options;
  /* The same with the reverse order of bytes. */
  rocksdb_options_t *reversed;
  rocksdb_comparator_t *comparator;
  bool is_reverse[FAMILIES];
  rocksdb_writeoptions_t *write;
  rocksdb_t *db;
  rocksdb_optimistictransactiondb_t *optimistic;
  rocksdb_transactiondb_t *pessimistic;
  rocksdb_column_family_handle_t *families[FAMILIES];
  /* Whether the key was put since it was deleted: only then can it be deleted as a single one. */
  bool solo[FAMILIES][SOLO_KEYS];
  const rocksdb_snapshot_t *snapshots[SLOTS];
  struct cursor cursors[SLOTS];
  rocksdb_writebatch_wi_t *batches[SLOTS];
  rocksdb_transaction_t *transactions[SLOTS];
  int files;
};

extern struct database now;

/* support.c */
void draw_from(uint64_t seed, uint64_t call);
uint64_t draw(uint64_t below);
bool one_in(uint64_t times);
struct key draw_key(void);
struct value draw_value(void);
/* One that exists. */
int draw_family(void);
/* The start of bytes: sometimes null, if there are none. */
const char *start(const char *bytes, size_t length);
void show(const char *bytes, size_t length);
void show_key(const struct key *key);
/* Prints what a call did, and frees the error. Returns whether there is none. */
bool show_error(char *error);
/* Prints what a get returned, and frees it. */
void show_value(char *value, size_t length, char *error);
rocksdb_mergeoperator_t *merge_operator(void);
/* One that sorts keys by their bytes, the larger first. */
rocksdb_comparator_t *reverse_comparator(void);

/* database.c */
void begin(const char *dir, uint64_t seed);
void end(void);
void reopen(void);
void change_families(void);
void drop_handles(void);
void dump(rocksdb_t *db, rocksdb_column_family_handle_t *family);
void checkpoint(void);
void ingest(void);

/* writes.c */
bool has_open_transactions(void);
/* Whether transactions keep other writes from this program. */
bool is_held(void);
/* Whether transactions keep the memtable from being flushed. */
bool is_kept(void);
void put(void);
void merge(void);
void delete_key(void);
void delete_single(void);
void delete_range(void);
void write_batch(void);
void flush(void);
void compact(void);

/* reads.c */
void begin_reading(struct reading *reading, enum reader what);
void end_reading(struct reading *reading);
void get(void);
void multi_get(void);
void change_snapshots(void);
void create_iterator(void);
void use_iterator(void);
void move_iterator(rocksdb_iterator_t *iterator, bool is_tailing);
void create_iterators(void);

/* indexed.c */
void change_indexed(void);
void read_indexed(void);
void write_indexed(void);

/* transactions.c */
void begin_transaction(void);
void change_in_transaction(void);
void read_in_transaction(void);
void end_transaction(void);

#endif
