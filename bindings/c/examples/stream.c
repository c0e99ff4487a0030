// A value of any size: written from a file, and read back a part at a time. Neither is held in memory.
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

// The next bytes of the file: 0 at its end, and less than 0 if it cannot be read.
static ptrdiff_t read_file(void *file, uint8_t *buffer, size_t capacity) {
    size_t count = fread(buffer, 1, capacity, file);
    return count == 0 && ferror(file) ? -1 : (ptrdiff_t)count;
}

int main(int argc, char **argv) {
    esker_error *error;
    esker_db *db;
    expect(esker_open(argc > 1 ? argv[1] : "data", NULL, &db, &error), error);
    esker_keyspace *films;
    expect(esker_keyspace_create(db, "films", NULL, &films, &error), error);

    FILE *file = tmpfile();
    if (file == NULL) return 1;
    for (int line = 0; line < 2000000; line++) fprintf(file, "%08d\n", line);
    rewind(file);
    const uint8_t *key = (const uint8_t *)"numbers";
    const size_t key_len = strlen("numbers");
    uint64_t len;
    expect(esker_put_reader(films, key, key_len, read_file, file, &len, &error), error);
    fclose(file);
    printf("%llu bytes\n", (unsigned long long)len);

    esker_value_reader *reader;
    expect(esker_get_reader(films, key, key_len, &reader, &error), error);
    uint8_t buffer[65536];
    size_t count, lines = 0;
    do {
        expect(esker_value_reader_read(reader, buffer, sizeof buffer, &count, &error), error);
        for (size_t at = 0; at < count; at++) lines += buffer[at] == '\n';
    } while (count == sizeof buffer);
    printf("%zu lines\n", lines);

    expect(esker_value_reader_seek(reader, len - 9, &error), error);
    expect(esker_value_reader_read(reader, buffer, 8, &count, &error), error);
    printf("the last is %.*s\n", (int)count, (const char *)buffer);

    esker_value_reader_free(reader);
    esker_keyspace_free(films);
    expect(esker_close(db, &error), error);
    return 0;
}
