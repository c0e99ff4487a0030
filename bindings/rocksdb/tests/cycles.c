/* Opens, iterates and commits again and again, through librocksdb: cycles DIR COUNT. */
#include "../../c/tests/cycles.h"

#include <rocksdb/c.h>

static rocksdb_options_t *options;
static rocksdb_writeoptions_t *write_options;
static rocksdb_readoptions_t *read_options;
static const char *path;

static void check(char *error) {
  if (error == NULL) return;
  fprintf(stderr, "cycles: %s\n", error);
  exit(1);
}

static void iterate(void *db) {
  rocksdb_iterator_t *iterator = rocksdb_create_iterator(db, read_options);
  rocksdb_iter_seek(iterator, "b", 1);
  rocksdb_iter_next(iterator);
  rocksdb_iter_destroy(iterator);
  size_t length;
  char *error = NULL;
  rocksdb_free(rocksdb_get(db, read_options, "b", 1, &length, &error));
  check(error);
  const rocksdb_snapshot_t *snapshot = rocksdb_create_snapshot(db);
  rocksdb_release_snapshot(db, snapshot);
}

static void transact(void *db) {
  char *error = NULL;
  size_t length;
  rocksdb_transaction_options_t *begin = rocksdb_transaction_options_create();
  rocksdb_transaction_t *transaction = rocksdb_transaction_begin(db, write_options, begin, NULL);
  rocksdb_transaction_put(transaction, "b", 1, "beta", 4, &error);
  check(error);
  rocksdb_free(rocksdb_transaction_get_for_update(transaction, read_options, "c", 1, &length, 1,
                                                  &error));
  check(error);
  rocksdb_iterator_t *iterator = rocksdb_transaction_create_iterator(transaction, read_options);
  rocksdb_iter_seek_to_first(iterator);
  rocksdb_iter_destroy(iterator);
  rocksdb_transaction_commit(transaction, &error);
  check(error);
  rocksdb_transaction_destroy(transaction);
  rocksdb_transaction_options_destroy(begin);
}

/* The KiB of MemTables: what was written since the last flush, and what is flushed now. */
static long in_memtables(void *db) {
  char *bytes = rocksdb_transactiondb_property_value(db, "rocksdb.cur-size-all-mem-tables");
  long kib = bytes == NULL ? 0 : atol(bytes) / 1024;
  rocksdb_free(bytes);
  return kib;
}

static void *open_database(void) {
  char *error = NULL;
  rocksdb_transactiondb_options_t *locks = rocksdb_transactiondb_options_create();
  void *db = rocksdb_transactiondb_open(options, locks, path, &error);
  check(error);
  rocksdb_transactiondb_options_destroy(locks);
  return db;
}

static void open_and_close(void *unused) {
  (void)unused;
  void *db = open_database();
  iterate(db);
  rocksdb_transactiondb_close(db);
}

int main(int count, char **arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: %s DIR COUNT\n", arguments[0]);
    return 2;
  }
  char *error = NULL;
  path = arguments[1];
  long cycles = atol(arguments[2]);
  options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_write_buffer_size(options, 1 << 20);
  write_options = rocksdb_writeoptions_create();
  read_options = rocksdb_readoptions_create();
  void *db = open_database();
  rocksdb_transactiondb_put(db, write_options, "c", 1, "gamma", 5, &error);
  check(error);
  int is_flat = cycle("iterators", iterate, db, cycles, in_memtables);
  is_flat &= cycle("transactions", transact, db, cycles, in_memtables);
  rocksdb_transactiondb_close(db);
  /* An open takes as long as a thousand of the others. */
  is_flat &= cycle("opens", open_and_close, NULL, cycles / 100 < 10 ? 10 : cycles / 100, NULL);
  rocksdb_destroy_db(options, path, &error);
  check(error);
  rocksdb_readoptions_destroy(read_options);
  rocksdb_writeoptions_destroy(write_options);
  rocksdb_options_destroy(options);
  return is_flat ? 0 : 1;
}
