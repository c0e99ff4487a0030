// Reads the entries whose keys start with a prefix, from the last to the first, without copies.
#include "esker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(esker_status status, esker_error *error) {
    if (status == ESKER_OK) return;
    fprintf(stderr, "%s\n", error != NULL ? esker_error_text(error) : "not found");
    esker_error_free(error);
    exit(1);
}

int main(int argc, char **argv) {
    static const char *const names[] = {"ada", "alan", "barbara", "edsger", "grace", "gordon"};
    esker_error *error;
    esker_db *db;
    expect(esker_open(argc > 1 ? argv[1] : "data", NULL, &db, &error), error);
    esker_keyspace *users;
    expect(esker_keyspace_create(db, "users", NULL, &users, &error), error);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const uint8_t *name = (const uint8_t *)names[i];
        expect(esker_put(users, name, strlen(names[i]), name, 1, &error), error);
    }

    // A snapshot, so that two cursors see the same. One cursor needs none: it has its own.
    esker_snapshot *snapshot;
    expect(esker_snapshot_new(db, &snapshot, &error), error);
    expect(esker_delete(users, (const uint8_t *)"grace", 5, &error), error);

    esker_cursor *cursor;
    expect(esker_cursor_prefix(users, snapshot, (const uint8_t *)"g", 1, &cursor, &error), error);
    esker_status status = esker_cursor_last(cursor, &error);
    for (; status == ESKER_OK; status = esker_cursor_prev(cursor, &error)) {
        const uint8_t *key;
        size_t key_len;
        // The bytes belong to the cursor until it moves.
        expect(esker_cursor_entry(cursor, &key, &key_len, NULL, NULL, &error), error);
        printf("%.*s\n", (int)key_len, (const char *)key);
    }
    if (status != ESKER_NOT_FOUND) expect(status, error);

    esker_cursor_free(cursor);
    esker_snapshot_free(snapshot);
    esker_keyspace_free(users);
    expect(esker_close(db, &error), error);
    return 0;
}
