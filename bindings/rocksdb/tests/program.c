/* A program of RocksDB's C interface. It declares the few functions that it calls. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rocksdb_t rocksdb_t;
typedef struct rocksdb_options_t rocksdb_options_t;
typedef struct rocksdb_writeoptions_t rocksdb_writeoptions_t;
typedef struct rocksdb_readoptions_t rocksdb_readoptions_t;
typedef struct rocksdb_iterator_t rocksdb_iterator_t;
typedef struct rocksdb_writebatch_t rocksdb_writebatch_t;

rocksdb_options_t* rocksdb_options_create(void);
void rocksdb_options_destroy(rocksdb_options_t*);
void rocksdb_options_set_create_if_missing(rocksdb_options_t*, unsigned char);
rocksdb_t* rocksdb_open(const rocksdb_options_t*, const char*, char**);
void rocksdb_close(rocksdb_t*);
rocksdb_writeoptions_t* rocksdb_writeoptions_create(void);
void rocksdb_writeoptions_destroy(rocksdb_writeoptions_t*);
rocksdb_readoptions_t* rocksdb_readoptions_create(void);
void rocksdb_readoptions_destroy(rocksdb_readoptions_t*);
void rocksdb_put(rocksdb_t*, const rocksdb_writeoptions_t*, const char*, size_t, const char*, size_t,
                 char**);
char* rocksdb_get(rocksdb_t*, const rocksdb_readoptions_t*, const char*, size_t, size_t*, char**);
rocksdb_writebatch_t* rocksdb_writebatch_create(void);
void rocksdb_writebatch_destroy(rocksdb_writebatch_t*);
void rocksdb_writebatch_put(rocksdb_writebatch_t*, const char*, size_t, const char*, size_t);
void rocksdb_write(rocksdb_t*, const rocksdb_writeoptions_t*, rocksdb_writebatch_t*, char**);
rocksdb_iterator_t* rocksdb_create_iterator(rocksdb_t*, const rocksdb_readoptions_t*);
void rocksdb_iter_destroy(rocksdb_iterator_t*);
void rocksdb_iter_seek_to_first(rocksdb_iterator_t*);
unsigned char rocksdb_iter_valid(const rocksdb_iterator_t*);
void rocksdb_iter_next(rocksdb_iterator_t*);
const char* rocksdb_iter_key(const rocksdb_iterator_t*, size_t*);
void rocksdb_iter_get_error(const rocksdb_iterator_t*, char**);
void rocksdb_free(void*);

#define CHECK(condition)                                            \
  do {                                                              \
    if (!(condition)) {                                             \
      fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition,    \
              error != NULL ? error : "");                          \
      return 1;                                                     \
    }                                                               \
  } while (0)

int main(int count, char** arguments) {
  char* error = NULL;
  size_t length = 0;
  CHECK(count == 2);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_t* none = rocksdb_open(options, arguments[1], &error);
  CHECK(none == NULL && strncmp(error, "Invalid argument: ", 18) == 0);
  rocksdb_free(error);
  error = NULL;

  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_t* db = rocksdb_open(options, arguments[1], &error);
  CHECK(db != NULL && error == NULL);
  rocksdb_writeoptions_t* write = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* read = rocksdb_readoptions_create();
  rocksdb_put(db, write, "", 0, "of the empty key", 16, &error);
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "ada", 3, "analyst", 7);
  rocksdb_writebatch_put(batch, "grace", 5, "admiral", 7);
  rocksdb_write(db, write, batch, &error);
  CHECK(error == NULL);
  char* value = rocksdb_get(db, read, "ada", 3, &length, &error);
  CHECK(value != NULL && length == 7 && memcmp(value, "analyst", 7) == 0);
  rocksdb_free(value);
  value = rocksdb_get(db, read, "eve", 3, &length, &error);
  CHECK(value == NULL && error == NULL);

  rocksdb_iterator_t* iterator = rocksdb_create_iterator(db, read);
  char keys[32] = "";
  for (rocksdb_iter_seek_to_first(iterator); rocksdb_iter_valid(iterator);
       rocksdb_iter_next(iterator)) {
    const char* key = rocksdb_iter_key(iterator, &length);
    strncat(keys, key, length);
    strcat(keys, ";");
  }
  rocksdb_iter_get_error(iterator, &error);
  CHECK(error == NULL && strcmp(keys, ";ada;grace;") == 0);

  /* Handles may be destroyed in any order. */
  rocksdb_close(db);
  rocksdb_iter_seek_to_first(iterator);
  CHECK(!rocksdb_iter_valid(iterator));
  rocksdb_iter_destroy(iterator);
  rocksdb_writebatch_destroy(batch);
  rocksdb_readoptions_destroy(read);
  rocksdb_writeoptions_destroy(write);
  rocksdb_options_destroy(options);
  puts("done");
  return 0;
}
