// Opens a database, puts a value and reads it.
#include "esker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Ends the program if a call failed.
static void expect(esker_status status, esker_error *error) {
    if (status == ESKER_OK) return;
    fprintf(stderr, "%s\n", error != NULL ? esker_error_text(error) : "not found");
    esker_error_free(error);
    exit(1);
}

int main(int argc, char **argv) {
    const char *dir = argc > 1 ? argv[1] : "data";
    const uint8_t *key = (const uint8_t *)"ada", *value = (const uint8_t *)"analyst";
    esker_error *error;

    esker_settings *settings;
    expect(esker_settings_new(&settings, &error), error);
    expect(esker_settings_set(settings, "memory_bytes", "256MiB", &error), error);

    esker_db *db;
    expect(esker_open(dir, settings, &db, &error), error);
    esker_settings_free(settings);
    esker_keyspace *users;
    expect(esker_keyspace_create(db, "users", NULL, &users, &error), error);

    expect(esker_put(users, key, 3, value, 7, &error), error);
    esker_bytes found;
    expect(esker_get(users, key, 3, &found, &error), error);
    printf("ada: %.*s\n", (int)found.len, (const char *)found.data);
    esker_bytes_free(&found);

    // A key that is not there is an answer, and no error.
    if (esker_get(users, (const uint8_t *)"bob", 3, &found, &error) == ESKER_NOT_FOUND)
        printf("bob: not found\n");

    // A failure has a number for the program and a text for people.
    esker_status status = esker_set(db, "background_write_rat", "20MiB", &error);
    if (status == ESKER_INVALID_SETTING) printf("%s\n", esker_error_text(error));
    esker_error_free(error);

    esker_keyspace_free(users);
    expect(esker_close(db, &error), error);
    return 0;
}
