/* Batches with an index. */
#include "compare.h"

static int draw_batch(void) {
  int slot = (int)draw(SLOTS);
  printf(" %d", slot);
  if (now.batches[slot] == NULL) {
    now.batches[slot] = rocksdb_writebatch_wi_create(0, (unsigned char)(slot % 2));
  }
  return slot;
}

void change_indexed(void) {
  rocksdb_writebatch_wi_t *batch = now.batches[draw_batch()];
  uint64_t count = 1 + draw(4);
  for (uint64_t at = 0; at < count; at++) {
    char *error = NULL;
    rocksdb_column_family_handle_t *family = now.families[draw_family()];
    struct key key = draw_key();
    struct value value = draw_value();
    uint64_t what = draw(12);
    printf(" %d", (int)what);
    show_key(&key);
    if (what < 4) {
      rocksdb_writebatch_wi_put_cf(batch, family, key.bytes, key.length, value.bytes,
                                   value.length);
    } else if (what < 6) {
      rocksdb_writebatch_wi_merge_cf(batch, family, key.bytes, key.length, value.bytes,
                                     value.length);
    } else if (what < 8) {
      rocksdb_writebatch_wi_delete_cf(batch, family, key.bytes, key.length);
    } else if (what == 8) {
      rocksdb_writebatch_wi_set_save_point(batch);
    } else if (what == 9) {
      rocksdb_writebatch_wi_rollback_to_save_point(batch, &error);
      show_error(error);
    } else if (what == 10 && one_in(4)) {
      rocksdb_writebatch_wi_clear(batch);
    }
  }
  printf(" count %d", rocksdb_writebatch_wi_count(batch));
}

void read_indexed(void) {
  char *error = NULL;
  size_t length = 0;
  struct reading reading;
  rocksdb_writebatch_wi_t *batch = now.batches[draw_batch()];
  rocksdb_column_family_handle_t *family = now.families[draw_family()];
  struct key key = draw_key();
  show_key(&key);
  uint64_t what = draw(3);
  begin_reading(&reading, what == 2 ? WITH_WRITES : VALUES);
  if (what == 0) {
    char *value = rocksdb_writebatch_wi_get_from_batch_cf(batch, now.options, family, key.bytes,
                                                          key.length, &length, &error);
    show_value(value, length, error);
  } else if (what == 1) {
    char *value = rocksdb_writebatch_wi_get_from_batch_and_db_cf(
        batch, now.db, reading.options, family, key.bytes, key.length, &length, &error);
    show_value(value, length, error);
  } else {
    rocksdb_iterator_t *base = rocksdb_create_iterator_cf(now.db, reading.options, family);
    rocksdb_iterator_t *iterator = rocksdb_writebatch_wi_create_iterator_with_base_cf_readopts(
        batch, base, family, reading.options);
    move_iterator(iterator, false);
    rocksdb_iter_destroy(iterator);
  }
  end_reading(&reading);
}

void write_indexed(void) {
  char *error = NULL;
  int slot = draw_batch();
  if (is_held()) return;
  rocksdb_write_writebatch_wi(now.db, now.write, now.batches[slot], &error);
  show_error(error);
}
