/* Reads outside of transactions. */
#include "compare.h"

static void draw_bounds(struct reading *reading) {
  if (one_in(3) && !reading->is_tailing) {
    reading->lower = draw_key();
    rocksdb_readoptions_set_iterate_lower_bound(reading->options, reading->lower.bytes,
                                                reading->lower.length);
    printf(" from");
    show_key(&reading->lower);
  }
  if (one_in(3)) {
    reading->upper = draw_key();
    rocksdb_readoptions_set_iterate_upper_bound(reading->options, reading->upper.bytes,
                                                reading->upper.length);
    printf(" to");
    show_key(&reading->upper);
  }
}

void begin_reading(struct reading *reading, enum reader what) {
  memset(reading, 0, sizeof *reading);
  reading->options = rocksdb_readoptions_create();
  int slot = (int)draw(SLOTS * 2);
  /* Tailing iterators of RocksDB ignore snapshots and that ranges are deleted. With a lower bound they
     miss entries. */
  reading->is_tailing = what == ALONE && one_in(10) && !now.has_ranges;
  if (reading->is_tailing) {
    printf(" tailing");
    rocksdb_readoptions_set_tailing(reading->options, 1);
  } else if (slot < SLOTS && now.snapshots[slot] != NULL) {
    printf(" at %d", slot);
    rocksdb_readoptions_set_snapshot(reading->options, now.snapshots[slot]);
  }
  if (what == VALUES) return;
  draw_bounds(reading);
  /* Without one of them, an iterator of a database with prefixes may leave keys out. One with the
     writes of a batch on top keeps these to no prefix. */
  uint64_t mode = draw(3);
  if (mode == 0 && now.has_prefix && what == ALONE) {
    printf(" prefix");
    rocksdb_readoptions_set_prefix_same_as_start(reading->options, 1);
  } else if (mode == 1) {
    rocksdb_readoptions_set_auto_prefix_mode(reading->options, 1);
  } else {
    rocksdb_readoptions_set_total_order_seek(reading->options, 1);
  }
}

void end_reading(struct reading *reading) { rocksdb_readoptions_destroy(reading->options); }

void get(void) {
  char *error = NULL;
  size_t length = 0;
  struct reading reading;
  int family = draw_family();
  struct key key = draw_key();
  begin_reading(&reading, VALUES);
  show_key(&key);
  if (one_in(2)) {
    char *value = rocksdb_get_cf(now.db, reading.options, now.families[family],
                                 start(key.bytes, key.length), key.length, &length, &error);
    show_value(value, length, error);
  } else {
    rocksdb_pinnableslice_t *pinned = rocksdb_get_pinned_cf(
        now.db, reading.options, now.families[family], key.bytes, key.length, &error);
    if (show_error(error)) {
      const char *value = rocksdb_pinnableslice_value(pinned, &length);
      if (pinned != NULL) show(value, length);
      rocksdb_pinnableslice_destroy(pinned);
    }
  }
  end_reading(&reading);
}

void multi_get(void) {
  enum { KEYS = 6 };
  struct key keys[KEYS];
  const char *starts[KEYS];
  size_t lengths[KEYS], value_lengths[KEYS];
  char *values[KEYS], *errors[KEYS];
  const rocksdb_column_family_handle_t *families[KEYS];
  struct reading reading;
  size_t count = draw(KEYS + 1);
  begin_reading(&reading, VALUES);
  for (size_t at = 0; at < count; at++) {
    keys[at] = draw_key();
    show_key(&keys[at]);
    starts[at] = start(keys[at].bytes, keys[at].length);
    lengths[at] = keys[at].length;
    families[at] = now.families[draw_family()];
  }
  if (one_in(2))
    rocksdb_multi_get_cf(now.db, reading.options, families, count, starts, lengths, values,
                         value_lengths, errors);
  else
    rocksdb_multi_get(now.db, reading.options, count, starts, lengths, values, value_lengths,
                      errors);
  for (size_t at = 0; at < count; at++) show_value(values[at], value_lengths[at], errors[at]);
  end_reading(&reading);
}

void change_snapshots(void) {
  int slot = (int)draw(SLOTS);
  printf(" %d", slot);
  if (now.snapshots[slot] != NULL) {
    rocksdb_release_snapshot(now.db, now.snapshots[slot]);
    now.snapshots[slot] = NULL;
  } else {
    now.snapshots[slot] = rocksdb_create_snapshot(now.db);
  }
}

static void show_place(rocksdb_iterator_t *iterator) {
  char *error = NULL;
  size_t length;
  if (rocksdb_iter_valid(iterator)) {
    const char *bytes = rocksdb_iter_key(iterator, &length);
    putchar(' ');
    show(bytes, length);
    bytes = rocksdb_iter_value(iterator, &length);
    show(bytes, length);
  } else {
    printf(" end");
  }
  rocksdb_iter_get_error(iterator, &error);
  if (error != NULL) show_error(error);
}

void move_iterator(rocksdb_iterator_t *iterator, bool is_tailing) {
  uint64_t moves = 1 + draw(6);
  for (uint64_t at = 0; at < moves; at++) {
    struct key key = draw_key();
    uint64_t move = draw(is_tailing ? 2 : 8);
    if (move == 0) {
      printf(" first");
      rocksdb_iter_seek_to_first(iterator);
    } else if (move == 1) {
      printf(" seek");
      show_key(&key);
      rocksdb_iter_seek(iterator, start(key.bytes, key.length), key.length);
    } else if (move == 2) {
      printf(" last");
      rocksdb_iter_seek_to_last(iterator);
    } else if (move == 3) {
      printf(" back");
      show_key(&key);
      rocksdb_iter_seek_for_prev(iterator, start(key.bytes, key.length), key.length);
    } else if (!rocksdb_iter_valid(iterator)) {
      continue;
    } else if (move < 6) {
      printf(" next");
      rocksdb_iter_next(iterator);
    } else {
      printf(" prev");
      rocksdb_iter_prev(iterator);
    }
    show_place(iterator);
  }
}

void create_iterator(void) {
  int slot = (int)draw(SLOTS);
  struct cursor *cursor = &now.cursors[slot];
  printf(" %d", slot);
  if (cursor->iterator != NULL) {
    rocksdb_iter_destroy(cursor->iterator);
    end_reading(&cursor->reading);
  }
  cursor->family = draw_family();
  begin_reading(&cursor->reading, ALONE);
  cursor->iterator =
      rocksdb_create_iterator_cf(now.db, cursor->reading.options, now.families[cursor->family]);
  move_iterator(cursor->iterator, cursor->reading.is_tailing);
}

void use_iterator(void) {
  int slot = (int)draw(SLOTS);
  struct cursor *cursor = &now.cursors[slot];
  printf(" %d", slot);
  if (cursor->iterator == NULL) return;
  if (one_in(8) && !cursor->reading.is_tailing) {
    char *error = NULL;
    printf(" refresh");
    rocksdb_iter_refresh(cursor->iterator, &error);
    show_error(error);
    printf(" %d", rocksdb_iter_valid(cursor->iterator));
  }
  move_iterator(cursor->iterator, cursor->reading.is_tailing);
}

void create_iterators(void) {
  char *error = NULL;
  struct reading reading;
  rocksdb_column_family_handle_t *families[] = {now.families[draw_family()],
                                                now.families[draw_family()]};
  rocksdb_iterator_t *iterators[2];
  begin_reading(&reading, ALONE);
  rocksdb_create_iterators(now.db, reading.options, families, iterators, 2, &error);
  if (show_error(error)) {
    for (int at = 0; at < 2; at++) {
      move_iterator(iterators[at], reading.is_tailing);
      rocksdb_iter_destroy(iterators[at]);
    }
  }
  end_reading(&reading);
}
