// Writes to two keyspaces at once: a user, and the index by which the user is found.
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

static void add(esker_batch *batch, const esker_keyspace *keyspace, const char *key,
                const char *value) {
    esker_error *error;
    expect(esker_batch_put(batch, keyspace, (const uint8_t *)key, strlen(key),
                           (const uint8_t *)value, strlen(value), &error),
           error);
}

int main(int argc, char **argv) {
    esker_error *error;
    esker_db *db;
    expect(esker_open(argc > 1 ? argv[1] : "data", NULL, &db, &error), error);
    esker_keyspace *users, *by_role;
    expect(esker_keyspace_create(db, "users", NULL, &users, &error), error);
    expect(esker_keyspace_create(db, "by_role", NULL, &by_role, &error), error);

    esker_batch *batch;
    expect(esker_batch_new(&batch, &error), error);
    add(batch, users, "ada", "analyst");
    add(batch, by_role, "analyst/ada", "");
    // Durable when the call returns, whatever the setting `sync` is.
    expect(esker_batch_set_sync(batch, true, &error), error);
    expect(esker_write(db, batch, &error), error);
    printf("%zu writes\n", esker_batch_len(batch));

    const char *entry = "analyst/ada";
    esker_status there = esker_contains(by_role, (const uint8_t *)entry, strlen(entry), &error);
    printf("%s: %s\n", entry, there == ESKER_OK ? "there" : "not there");

    // In any order: what is freed last only knows that the database is closed.
    expect(esker_close(db, &error), error);
    esker_batch_free(batch);
    esker_keyspace_free(by_role);
    esker_keyspace_free(users);
    return 0;
}
