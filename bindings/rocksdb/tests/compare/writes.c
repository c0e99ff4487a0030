/* Writes outside of transactions. */
#include "compare.h"

bool has_open_transactions(void) {
  bool has_open = false;
  for (int slot = 0; slot < SLOTS; slot++) has_open |= now.transactions[slot] != NULL;
  return has_open;
}

bool is_held(void) {
  bool is_held = now.has_savepoints && has_open_transactions();
  if (is_held) printf(" held");
  return is_held;
}

/* After a flush, RocksDB may lack what a commit is checked against, and asks to try again. */
bool is_kept(void) { return now.kind == OPTIMISTIC && has_open_transactions(); }

void put(void) {
  char *error = NULL;
  int family = draw_family();
  struct key key = draw_key();
  struct value value = draw_value();
  bool is_plain = family == 0 && one_in(2);
  if (is_held()) return;
  show_key(&key);
  const char *from = start(key.bytes, key.length), *bytes = start(value.bytes, value.length);
  if (is_plain)
    rocksdb_put(now.db, now.write, from, key.length, bytes, value.length, &error);
  else
    rocksdb_put_cf(now.db, now.write, now.families[family], from, key.length, bytes, value.length,
                   &error);
  show_error(error);
}

void merge(void) {
  char *error = NULL;
  int family = draw_family();
  struct key key = draw_key();
  struct value value = draw_value();
  if (is_held()) return;
  show_key(&key);
  rocksdb_merge_cf(now.db, now.write, now.families[family], start(key.bytes, key.length),
                   key.length, start(value.bytes, value.length), value.length, &error);
  show_error(error);
}

void delete_key(void) {
  char *error = NULL;
  int family = draw_family();
  struct key key = draw_key();
  if (is_held()) return;
  show_key(&key);
  rocksdb_delete_cf(now.db, now.write, now.families[family], start(key.bytes, key.length),
                    key.length, &error);
  show_error(error);
}

/* Puts a key that is not there, or deletes it as a single one. */
void delete_single(void) {
  char *error = NULL;
  int family = draw_family();
  int which = (int)draw(SOLO_KEYS);
  char key[] = {'z', (char)('0' + which)};
  if (is_held()) return;
  printf(" z%d", which);
  if (now.solo[family][which])
    rocksdb_singledelete_cf(now.db, now.write, now.families[family], key, sizeof key, &error);
  else
    rocksdb_put_cf(now.db, now.write, now.families[family], key, sizeof key, "solo", 4, &error);
  if (show_error(error)) now.solo[family][which] = !now.solo[family][which];
}

/* Makes a range of two keys, which has none of `delete_single`. RocksDB refuses all writes after one of
   a range that ends before it begins. */
static void order(struct key *from, struct key *to, bool is_reverse) {
  struct key *keys[] = {from, to};
  for (int at = 0; at < 2; at++) {
    struct key *key = keys[at];
    if (key->length > 0 && (unsigned char)key->bytes[0] >= 'z') key->bytes[0] = 'd';
  }
  size_t both = from->length < to->length ? from->length : to->length;
  int order = memcmp(from->bytes, to->bytes, both);
  bool is_down = order > 0 || (order == 0 && from->length > to->length);
  if (is_down != is_reverse) {
    struct key last = *from;
    *from = *to;
    *to = last;
  }
}

void delete_range(void) {
  char *error = NULL;
  int family = draw_family();
  struct key from = draw_key(), to = draw_key();
  order(&from, &to, now.is_reverse[family]);
  /* Of pessimistic transactions, one that fails. */
  if (is_held() || (!now.has_ranges && now.kind != PESSIMISTIC)) return;
  show_key(&from);
  show_key(&to);
  rocksdb_delete_range_cf(now.db, now.write, now.families[family], from.bytes, from.length,
                          to.bytes, to.length, &error);
  show_error(error);
}

static void add_to(rocksdb_writebatch_t *batch) {
  char *error = NULL;
  int family = draw_family();
  struct key key = draw_key(), to = draw_key();
  struct value value = draw_value();
  rocksdb_column_family_handle_t *handle = now.families[family];
  uint64_t what = draw(12);
  printf(" %d", (int)what);
  if (what == 10) order(&key, &to, now.is_reverse[family]);
  show_key(&key);
  if (what < 4) {
    rocksdb_writebatch_put_cf(batch, handle, key.bytes, key.length, value.bytes, value.length);
  } else if (what < 6) {
    rocksdb_writebatch_merge_cf(batch, handle, key.bytes, key.length, value.bytes, value.length);
  } else if (what < 8) {
    rocksdb_writebatch_delete_cf(batch, handle, key.bytes, key.length);
  } else if (what == 8) {
    rocksdb_writebatch_set_save_point(batch);
  } else if (what == 9) {
    if (one_in(3)) rocksdb_writebatch_pop_save_point(batch, &error);
    else rocksdb_writebatch_rollback_to_save_point(batch, &error);
    show_error(error);
  } else if (what == 10 && now.has_ranges) {
    rocksdb_writebatch_delete_range_cf(batch, handle, key.bytes, key.length, to.bytes, to.length);
  } else if (one_in(6)) {
    rocksdb_writebatch_clear(batch);
  }
}

void write_batch(void) {
  char *error = NULL;
  uint64_t count = draw(8);
  if (is_held()) return;
  rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
  for (uint64_t at = 0; at < count; at++) add_to(batch);
  printf(" count %d", rocksdb_writebatch_count(batch));
  size_t length;
  const char *data = rocksdb_writebatch_data(batch, &length);
  show(data, length);
  if (now.kind == PESSIMISTIC && one_in(2))
    rocksdb_transactiondb_write(now.pessimistic, now.write, batch, &error);
  else if (now.kind == OPTIMISTIC && one_in(2))
    rocksdb_optimistictransactiondb_write(now.optimistic, now.write, batch, &error);
  else
    rocksdb_write(now.db, now.write, batch, &error);
  show_error(error);
  rocksdb_writebatch_destroy(batch);
}

void flush(void) {
  char *error = NULL;
  int family = draw_family();
  if (is_kept()) return;
  rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();
  rocksdb_flushoptions_set_wait(options, 1);
  if (one_in(2)) rocksdb_flush(now.db, options, &error);
  else rocksdb_flush_cf(now.db, options, now.families[family], &error);
  rocksdb_flushoptions_destroy(options);
  show_error(error);
}

void compact(void) {
  int family = draw_family();
  if (is_kept()) return;
  if (one_in(2)) {
    rocksdb_compact_range_cf(now.db, now.families[family], NULL, 0, NULL, 0);
  } else {
    const char *from = now.is_reverse[family] ? "b" : "a";
    const char *to = now.is_reverse[family] ? "a" : "b";
    rocksdb_compact_range_cf(now.db, now.families[family], from, 1, to, 1);
  }
}
