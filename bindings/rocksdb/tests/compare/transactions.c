/* Transactions, several at once. */
#include "compare.h"

static int draw_transaction(void) {
  int slot = now.has_savepoints ? 0 : (int)draw(SLOTS);
  printf(" %d", slot);
  return slot;
}

void begin_transaction(void) {
  int slot = draw_transaction();
  bool has_snapshot = one_in(2);
  rocksdb_transaction_t **transaction = &now.transactions[slot];
  if (now.kind == PLAIN || *transaction != NULL) return;
  printf(" snapshot %d", has_snapshot);
  if (now.kind == PESSIMISTIC) {
    rocksdb_transaction_options_t *options = rocksdb_transaction_options_create();
    rocksdb_transaction_options_set_set_snapshot(options, has_snapshot);
    *transaction = rocksdb_transaction_begin(now.pessimistic, now.write, options, NULL);
    rocksdb_transaction_options_destroy(options);
  } else {
    rocksdb_optimistictransaction_options_t *options =
        rocksdb_optimistictransaction_options_create();
    rocksdb_optimistictransaction_options_set_set_snapshot(options, has_snapshot);
    *transaction = rocksdb_optimistictransaction_begin(now.optimistic, now.write, options, NULL);
    rocksdb_optimistictransaction_options_destroy(options);
  }
}

void change_in_transaction(void) {
  char *error = NULL;
  rocksdb_transaction_t *transaction = now.transactions[draw_transaction()];
  rocksdb_column_family_handle_t *family = now.families[draw_family()];
  struct key key = draw_key();
  struct value value = draw_value();
  uint64_t what = draw(now.has_savepoints ? 10 : 8);
  if (transaction == NULL) return;
  printf(" %d", (int)what);
  show_key(&key);
  if (what < 4) {
    rocksdb_transaction_put_cf(transaction, family, start(key.bytes, key.length), key.length,
                               start(value.bytes, value.length), value.length, &error);
  } else if (what < 6) {
    rocksdb_transaction_merge_cf(transaction, family, key.bytes, key.length, value.bytes,
                                 value.length, &error);
  } else if (what < 8) {
    rocksdb_transaction_delete_cf(transaction, family, key.bytes, key.length, &error);
  } else if (what == 8) {
    rocksdb_transaction_set_savepoint(transaction);
  } else {
    rocksdb_transaction_rollback_to_savepoint(transaction, &error);
  }
  show_error(error);
}

static void multi_get_in(rocksdb_transaction_t *transaction, const rocksdb_readoptions_t *options) {
  enum { KEYS = 4 };
  struct key keys[KEYS];
  const char *starts[KEYS];
  size_t lengths[KEYS], value_lengths[KEYS];
  char *values[KEYS], *errors[KEYS];
  for (size_t at = 0; at < KEYS; at++) {
    keys[at] = draw_key();
    starts[at] = keys[at].bytes;
    lengths[at] = keys[at].length;
  }
  rocksdb_transaction_multi_get(transaction, options, KEYS, starts, lengths, values, value_lengths,
                                errors);
  for (size_t at = 0; at < KEYS; at++) show_value(values[at], value_lengths[at], errors[at]);
}

void read_in_transaction(void) {
  char *error = NULL;
  size_t length = 0;
  struct reading reading;
  rocksdb_transaction_t *transaction = now.transactions[draw_transaction()];
  rocksdb_column_family_handle_t *family = now.families[draw_family()];
  struct key key = draw_key();
  uint64_t what = draw(4);
  if (transaction == NULL) return;
  show_key(&key);
  begin_reading(&reading, what == 3 ? WITH_WRITES : VALUES);
  if (what == 0) {
    char *value = rocksdb_transaction_get_cf(transaction, reading.options, family, key.bytes,
                                             key.length, &length, &error);
    show_value(value, length, error);
  } else if (what == 1) {
    /* A snapshot of the options must not be given. */
    rocksdb_readoptions_set_snapshot(reading.options, NULL);
    char *value = rocksdb_transaction_get_for_update_cf(transaction, reading.options, family,
                                                        key.bytes, key.length, &length, 1, &error);
    printf(" for update");
    show_value(value, length, error);
  } else if (what == 2) {
    multi_get_in(transaction, reading.options);
  } else {
    rocksdb_iterator_t *iterator =
        rocksdb_transaction_create_iterator_cf(transaction, reading.options, family);
    move_iterator(iterator, false);
    rocksdb_iter_destroy(iterator);
  }
  end_reading(&reading);
}

void end_transaction(void) {
  char *error = NULL;
  int slot = draw_transaction();
  rocksdb_transaction_t *transaction = now.transactions[slot];
  uint64_t what = draw(4);
  if (transaction == NULL) return;
  if (what < 3) {
    printf(" commit");
    rocksdb_transaction_commit(transaction, &error);
  } else {
    printf(" roll back");
    rocksdb_transaction_rollback(transaction, &error);
  }
  show_error(error);
  rocksdb_transaction_destroy(transaction);
  now.transactions[slot] = NULL;
}
