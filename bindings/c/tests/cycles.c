/* Opens, iterates and commits again and again, through libesker: cycles DIR COUNT. */
#include "cycles.h"

#include "esker.h"

static const char *path;

static void expect(esker_status status, esker_error *error) {
  if (status == ESKER_OK) return;
  fprintf(stderr, "cycles: %s\n", error != NULL ? esker_error_text(error) : "not found");
  exit(1);
}

static const uint8_t *key(const char *text) { return (const uint8_t *)text; }

struct handles {
  esker_db *db;
  esker_keyspace *users;
};

static void iterate(void *with) {
  const struct handles *handles = with;
  esker_error *error;
  esker_cursor *cursor;
  esker_snapshot *snapshot;
  esker_bytes value;
  expect(esker_snapshot_new(handles->db, &snapshot, &error), error);
  expect(esker_cursor_range(handles->users, snapshot, NULL, 0, NULL, 0, &cursor, &error), error);
  esker_snapshot_free(snapshot);
  expect(esker_cursor_seek(cursor, key("b"), 1, &error), error);
  esker_cursor_free(cursor);
  expect(esker_get(handles->users, key("c"), 1, &value, &error), error);
  esker_bytes_free(&value);
  if (esker_get(handles->users, NULL, 1, &value, &error) == ESKER_OK) exit(1);
  esker_error_free(error);
}

static void transact(void *with) {
  const struct handles *handles = with;
  esker_error *error;
  esker_transaction *transaction;
  esker_cursor *cursor;
  esker_bytes value;
  expect(esker_begin(handles->db, 0, 0, &transaction, &error), error);
  expect(esker_transaction_put(transaction, handles->users, key("b"), 1, key("beta"), 4, &error),
         error);
  expect(esker_transaction_get_for_update(transaction, handles->users, key("c"), 1, &value, &error),
         error);
  esker_bytes_free(&value);
  expect(esker_transaction_cursor_range(transaction, handles->users, NULL, 0, NULL, 0, &cursor,
                                        &error),
         error);
  expect(esker_cursor_first(cursor, &error), error);
  esker_cursor_free(cursor);
  expect(esker_commit(transaction, &error), error);
  esker_transaction_free(transaction);
}

static void open_database(struct handles *handles) {
  esker_error *error;
  esker_settings *settings;
  expect(esker_settings_new(&settings, &error), error);
  expect(esker_settings_set(settings, "segment_bytes", "1048576", &error), error);
  expect(esker_open(path, settings, &handles->db, &error), error);
  esker_settings_free(settings);
  expect(esker_keyspace_create(handles->db, "users", NULL, &handles->users, &error), error);
}

static void close_database(struct handles *handles) {
  esker_error *error;
  esker_keyspace_free(handles->users);
  expect(esker_close(handles->db, &error), error);
}

static void open_and_close(void *unused) {
  (void)unused;
  struct handles handles;
  open_database(&handles);
  iterate(&handles);
  close_database(&handles);
}

int main(int count, char **arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: %s DIR COUNT\n", arguments[0]);
    return 2;
  }
  esker_error *error;
  struct handles handles;
  path = arguments[1];
  long cycles = atol(arguments[2]);
  open_database(&handles);
  expect(esker_put(handles.users, key("c"), 1, key("gamma"), 5, &error), error);
  int is_flat = cycle("iterators", iterate, &handles, cycles, NULL);
  is_flat &= cycle("transactions", transact, &handles, cycles, NULL);
  close_database(&handles);
  /* An open takes as long as a thousand of the others. */
  is_flat &= cycle("opens", open_and_close, NULL, cycles / 100 < 10 ? 10 : cycles / 100, NULL);
  return is_flat ? 0 : 1;
}
