/* Opens and closes. */
#include "compare.h"

struct database now;

static const char *const names[FAMILIES] = {"default", "one", "two", "three"};

/* The options of a column family. */
static const rocksdb_options_t *options_of(int family) {
  return now.is_reverse[family] ? now.reversed : now.options;
}

static int number_of(const char *name) {
  int family = 0;
  while (strcmp(name, names[family]) != 0) family++;
  return family;
}

static void open_database(void) {
  char *error = NULL;
  size_t count = 0;
  char *first = "default";
  char **list = rocksdb_list_column_families(now.options, now.path, &count, &error);
  if (error != NULL) {
    /* It does not exist yet. */
    rocksdb_free(error);
    if (list != NULL) rocksdb_list_column_families_destroy(list, count);
    error = NULL;
    list = NULL;
    count = 1;
  }
  const char *const *given = list == NULL ? (const char *const *)&first : (const char *const *)list;
  const rocksdb_options_t *options[FAMILIES];
  for (size_t at = 0; at < count; at++) options[at] = options_of(number_of(given[at]));
  rocksdb_column_family_handle_t *handles[FAMILIES] = {NULL};
  if (now.kind == PESSIMISTIC) {
    rocksdb_transactiondb_options_t *locks = rocksdb_transactiondb_options_create();
    rocksdb_transactiondb_options_set_transaction_lock_timeout(locks, 1);
    rocksdb_transactiondb_options_set_default_lock_timeout(locks, 1);
    now.pessimistic = rocksdb_transactiondb_open_column_families(
        now.options, locks, now.path, (int)count, given, options, handles, &error);
    now.db = (rocksdb_t *)now.pessimistic;
    rocksdb_transactiondb_options_destroy(locks);
  } else if (now.kind == OPTIMISTIC) {
    now.optimistic = rocksdb_optimistictransactiondb_open_column_families(
        now.options, now.path, (int)count, given, options, handles, &error);
    now.db = error == NULL ? rocksdb_optimistictransactiondb_get_base_db(now.optimistic) : NULL;
  } else {
    now.db = rocksdb_open_column_families(now.options, now.path, (int)count, given, options, handles,
                                          &error);
  }
  printf(" open");
  for (size_t at = 0; at < count; at++) {
    printf(" %s", given[at]);
    now.families[number_of(given[at])] = handles[at];
  }
  if (!show_error(error)) exit(1);
  if (list != NULL) rocksdb_list_column_families_destroy(list, count);
}

static rocksdb_options_t *new_options(void) {
  rocksdb_options_t *options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_merge_operator(options, merge_operator());
  rocksdb_options_set_write_buffer_size(options, 1 << 20);
  if (now.has_prefix) {
    rocksdb_options_set_prefix_extractor(options, rocksdb_slicetransform_create_fixed_prefix(1));
  }
  return options;
}

void begin(const char *dir, uint64_t seed) {
  memset(&now, 0, sizeof now);
  draw_from(seed, UINT64_MAX);
  now.kind = (enum kind)draw(3);
  now.has_savepoints = one_in(2);
  now.has_prefix = one_in(3);
  now.has_ranges = now.kind == PLAIN && !one_in(3);
  snprintf(now.path, sizeof now.path, "%s/%llu", dir, (unsigned long long)seed);
  now.options = new_options();
  now.reversed = new_options();
  now.comparator = reverse_comparator();
  rocksdb_options_set_comparator(now.reversed, now.comparator);
  now.write = rocksdb_writeoptions_create();
  if (one_in(3)) rocksdb_writeoptions_disable_WAL(now.write, 1);
  for (int family = 0; family < FAMILIES; family++) {
    now.is_reverse[family] = one_in(3);
    if (now.is_reverse[family]) printf(" %s in reverse", names[family]);
  }
  open_database();
}

static void drop_cursor(struct cursor *cursor) {
  if (cursor->iterator == NULL) return;
  rocksdb_iter_destroy(cursor->iterator);
  end_reading(&cursor->reading);
  cursor->iterator = NULL;
}

void drop_handles(void) {
  for (int slot = 0; slot < SLOTS; slot++) {
    drop_cursor(&now.cursors[slot]);
    if (now.transactions[slot] != NULL) rocksdb_transaction_destroy(now.transactions[slot]);
    now.transactions[slot] = NULL;
    if (now.snapshots[slot] != NULL) rocksdb_release_snapshot(now.db, now.snapshots[slot]);
    now.snapshots[slot] = NULL;
    if (now.batches[slot] != NULL) rocksdb_writebatch_wi_destroy(now.batches[slot]);
    now.batches[slot] = NULL;
  }
}

static void close_database(void) {
  drop_handles();
  for (int family = 0; family < FAMILIES; family++) {
    if (now.families[family] != NULL) rocksdb_column_family_handle_destroy(now.families[family]);
    now.families[family] = NULL;
  }
  if (now.kind == PESSIMISTIC) {
    rocksdb_transactiondb_close(now.pessimistic);
  } else if (now.kind == OPTIMISTIC) {
    rocksdb_optimistictransactiondb_close_base_db(now.db);
    rocksdb_optimistictransactiondb_close(now.optimistic);
  } else {
    rocksdb_close(now.db);
  }
}

void dump(rocksdb_t *db, rocksdb_column_family_handle_t *family) {
  rocksdb_readoptions_t *options = rocksdb_readoptions_create();
  rocksdb_readoptions_set_total_order_seek(options, 1);
  rocksdb_iterator_t *iterator = family == NULL ? rocksdb_create_iterator(db, options)
                                                : rocksdb_create_iterator_cf(db, options, family);
  size_t length;
  printf(" [");
  for (rocksdb_iter_seek_to_first(iterator); rocksdb_iter_valid(iterator);
       rocksdb_iter_next(iterator)) {
    const char *key = rocksdb_iter_key(iterator, &length);
    show(key, length);
    const char *value = rocksdb_iter_value(iterator, &length);
    show(value, length);
  }
  char *error = NULL;
  rocksdb_iter_get_error(iterator, &error);
  show_error(error);
  printf(" ]");
  rocksdb_iter_destroy(iterator);
  rocksdb_readoptions_destroy(options);
}

static void dump_all(void) {
  for (int family = 0; family < FAMILIES; family++) {
    if (now.families[family] != NULL) dump(now.db, now.families[family]);
  }
}

void end(void) {
  char *error = NULL;
  drop_handles();
  printf("end");
  dump_all();
  close_database();
  rocksdb_destroy_db(now.options, now.path, &error);
  show_error(error);
  rocksdb_writeoptions_destroy(now.write);
  rocksdb_options_destroy(now.options);
  rocksdb_options_destroy(now.reversed);
  rocksdb_comparator_destroy(now.comparator);
  printf("\n");
}

void reopen(void) {
  char *error = NULL;
  close_database();
  if (one_in(3)) {
    rocksdb_t *db = rocksdb_open_for_read_only(options_of(0), now.path, 0, &error);
    if (show_error(error)) {
      error = NULL;
      dump(db, NULL);
      rocksdb_put(db, now.write, "a", 1, "b", 1, &error);
      show_error(error);
      rocksdb_close(db);
    }
  }
  open_database();
  dump_all();
}

/* Creates the column family, or drops it. */
void change_families(void) {
  char *error = NULL;
  int family = 1 + (int)draw(FAMILIES - 1);
  /* RocksDB cannot check a commit to one that is newer than the snapshot. */
  if (is_kept()) return;
  printf(" %s", names[family]);
  if (now.families[family] != NULL) {
    /* They could use it. */
    drop_handles();
    rocksdb_drop_column_family(now.db, now.families[family], &error);
    rocksdb_column_family_handle_destroy(now.families[family]);
    now.families[family] = NULL;
    memset(now.solo[family], 0, sizeof now.solo[family]);
  } else if (now.kind == PESSIMISTIC) {
    now.families[family] = rocksdb_transactiondb_create_column_family(
        now.pessimistic, options_of(family), names[family], &error);
  } else {
    now.families[family] =
        rocksdb_create_column_family(now.db, options_of(family), names[family], &error);
  }
  show_error(error);
  if (one_in(8) && now.families[family] != NULL) {
    error = NULL;
    rocksdb_column_family_handle_t *twice =
        rocksdb_create_column_family(now.db, options_of(family), names[family], &error);
    printf(" again");
    if (show_error(error)) rocksdb_column_family_handle_destroy(twice);
  }
}

/* Reads a checkpoint. */
void checkpoint(void) {
  char *error = NULL;
  char path[600];
  if (is_kept()) return;
  snprintf(path, sizeof path, "%s.checkpoint%d", now.path, now.files++);
  rocksdb_checkpoint_t *object = rocksdb_checkpoint_object_create(now.db, &error);
  if (!show_error(error)) return;
  error = NULL;
  rocksdb_checkpoint_create(object, path, 0, &error);
  rocksdb_checkpoint_object_destroy(object);
  if (!show_error(error)) return;
  error = NULL;
  rocksdb_t *copy = rocksdb_open_for_read_only(options_of(0), path, 0, &error);
  if (show_error(error)) {
    dump(copy, NULL);
    rocksdb_close(copy);
  }
  error = NULL;
  rocksdb_destroy_db(now.options, path, &error);
  show_error(error);
}

/* Adds a file of entries that are in order. */
void ingest(void) {
  char *error = NULL;
  char path[600];
  int family = draw_family();
  /* No lock and no commit hinders files. */
  if (has_open_transactions()) return;
  snprintf(path, sizeof path, "%s.file%d", now.path, now.files++);
  rocksdb_envoptions_t *environment = rocksdb_envoptions_create();
  rocksdb_sstfilewriter_t *writer = rocksdb_sstfilewriter_create(environment, options_of(family));
  rocksdb_sstfilewriter_open(writer, path, &error);
  show_error(error);
  struct key key = {.length = 2, .bytes = {'b'}};
  uint64_t count = draw(4);
  for (uint64_t at = 0; at < count; at++) {
    struct value value = draw_value();
    key.bytes[1] = (char)('a' + (now.is_reverse[family] ? count - 1 - at : at));
    error = NULL;
    uint64_t what = draw(4);
    if (what == 0) rocksdb_sstfilewriter_delete(writer, key.bytes, key.length, &error);
    else if (what == 1)
      rocksdb_sstfilewriter_merge(writer, key.bytes, key.length, value.bytes, value.length, &error);
    else
      rocksdb_sstfilewriter_put(writer, key.bytes, key.length, value.bytes, value.length, &error);
    show_error(error);
  }
  error = NULL;
  rocksdb_sstfilewriter_finish(writer, &error);
  bool is_finished = show_error(error);
  rocksdb_sstfilewriter_destroy(writer);
  rocksdb_envoptions_destroy(environment);
  if (is_finished) {
    rocksdb_ingestexternalfileoptions_t *options = rocksdb_ingestexternalfileoptions_create();
    const char *files[] = {path};
    error = NULL;
    rocksdb_ingest_external_file_cf(now.db, now.families[family], files, 1, options, &error);
    show_error(error);
    rocksdb_ingestexternalfileoptions_destroy(options);
  }
  remove(path);
}
