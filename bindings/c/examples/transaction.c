// Moves money between two accounts, and does it again after a conflict with another transaction.
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

// Reads an account and adds to it. Stops at the first failure.
static esker_status add(esker_transaction *tx, const esker_keyspace *accounts, const char *name,
                        int amount, esker_error **error) {
    const uint8_t *key = (const uint8_t *)name;
    esker_bytes found;
    uint8_t balance = 0;
    esker_status status =
        esker_transaction_get_for_update(tx, accounts, key, strlen(name), &found, error);
    if (status == ESKER_OK && found.len == 1) balance = found.data[0];
    esker_bytes_free(&found);
    if (status != ESKER_OK && status != ESKER_NOT_FOUND) return status;
    balance = (uint8_t)(balance + amount);
    return esker_transaction_put(tx, accounts, key, strlen(name), &balance, 1, error);
}

static esker_status transfer(esker_db *db, const esker_keyspace *accounts, const char *from,
                             const char *to, int amount, esker_error **error) {
    for (int attempt = 0;; attempt++) {
        esker_transaction *tx;
        esker_status status = esker_begin(db, 0, 0, &tx, error);
        if (status != ESKER_OK) return status;
        status = add(tx, accounts, from, -amount, error);
        if (status == ESKER_OK) status = add(tx, accounts, to, amount, error);
        if (status == ESKER_OK) status = esker_commit(tx, error);
        // Rolls back what was not committed.
        esker_transaction_free(tx);
        if (!esker_is_transient(status) || attempt == 100) return status;
        esker_error_free(*error);
    }
}

int main(int argc, char **argv) {
    esker_error *error;
    esker_db *db;
    expect(esker_open(argc > 1 ? argv[1] : "data", NULL, &db, &error), error);
    esker_keyspace *accounts;
    expect(esker_keyspace_create(db, "accounts", NULL, &accounts, &error), error);
    const uint8_t hundred = 100;
    expect(esker_put(accounts, (const uint8_t *)"ada", 3, &hundred, 1, &error), error);
    expect(esker_delete(accounts, (const uint8_t *)"bob", 3, &error), error);

    expect(transfer(db, accounts, "ada", "bob", 30, &error), error);
    static const char *const names[] = {"ada", "bob"};
    for (int i = 0; i < 2; i++) {
        // Into a buffer of the program: no allocation to free.
        uint8_t balance;
        size_t len;
        expect(esker_get_into(accounts, (const uint8_t *)names[i], 3, &balance, 1, &len, &error),
               error);
        printf("%s: %u\n", names[i], (unsigned)balance);
    }

    esker_keyspace_free(accounts);
    expect(esker_close(db, &error), error);
    return 0;
}
