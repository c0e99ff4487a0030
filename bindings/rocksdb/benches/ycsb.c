/* The workloads A to F of YCSB over rocksdb/c.h: ycsb DIR VALUE_BYTES RECORDS OPERATIONS THREADS.
   Loads a new database in DIR, runs OPERATIONS of each workload, and prints operations per second. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <pthread.h>
#include <rocksdb/c.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEY_BYTES = 24, SCAN_MAX = 100, VALUE_MAX = 4096 };

static rocksdb_t *db;
static rocksdb_writeoptions_t *write_options;
static rocksdb_readoptions_t *read_options;
static size_t value_bytes;
static uint64_t operations, threads;
/* Records whose insertion has begun. */
static atomic_uint_fast64_t inserted;

static void check(char *error) {
  if (error == NULL) return;
  fprintf(stderr, "ycsb: %s\n", error);
  exit(1);
}

static uint64_t mixed(uint64_t number) {
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
  return number ^ (number >> 31);
}

struct client {
  uint64_t random;
  char workload;
  /* The part of the sum of a Zipf distribution with exponent 0.99 that does not change. */
  double zeta;
  uint64_t zeta_of;
  char value[VALUE_MAX];
};

static uint64_t draw(struct client *client) { return mixed(client->random += 0x9e3779b97f4a7c15u); }

static double fraction(struct client *client) {
  return (double)(draw(client) >> 11) / (double)(UINT64_C(1) << 53);
}

static const double EXPONENT = 0.99;

/* A rank below `count`, as YCSB draws it: after Gray et al., "Quickly generating billion-record
   synthetic databases". */
static uint64_t zipf(struct client *client, uint64_t count) {
  while (client->zeta_of < count) client->zeta += pow((double)++client->zeta_of, -EXPONENT);
  double alpha = 1 / (1 - EXPONENT), two = 1 + pow(0.5, EXPONENT);
  double eta = (1 - pow(2.0 / (double)count, 1 - EXPONENT)) / (1 - two / client->zeta);
  double uniform = fraction(client), scaled = uniform * client->zeta;
  if (scaled < 1) return 0;
  if (scaled < two) return 1;
  uint64_t rank = (uint64_t)((double)count * pow(eta * uniform - eta + 1, alpha));
  return rank < count ? rank : count - 1;
}

static void key_of(uint64_t record, char key[KEY_BYTES + 1]) {
  snprintf(key, KEY_BYTES + 1, "user%020llu", (unsigned long long)mixed(record + 1));
}

/* Letters and digits: as hard to compress as those of YCSB. */
static void fill(struct client *client) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  for (size_t at = 0; at < value_bytes;) {
    uint64_t bits = draw(client);
    for (int i = 0; i < 10 && at < value_bytes; i++, bits >>= 6) client->value[at++] = letters[bits & 63];
  }
}

static void update(struct client *client, uint64_t record) {
  char key[KEY_BYTES + 1], *error = NULL;
  key_of(record, key);
  fill(client);
  rocksdb_put(db, write_options, key, KEY_BYTES, client->value, value_bytes, &error);
  check(error);
}

static void read_record(uint64_t record) {
  char key[KEY_BYTES + 1], *error = NULL;
  size_t length;
  key_of(record, key);
  char *value = rocksdb_get(db, read_options, key, KEY_BYTES, &length, &error);
  check(error);
  /* With several threads, the newest record may not be written yet. */
  if (value == NULL && threads == 1) {
    fprintf(stderr, "record %llu is missing\n", (unsigned long long)record);
    exit(1);
  }
  rocksdb_free(value);
}

static void scan(struct client *client, uint64_t record) {
  char key[KEY_BYTES + 1], *error = NULL;
  uint64_t count = 1 + draw(client) % SCAN_MAX;
  size_t length;
  volatile char touched = 0;
  key_of(record, key);
  rocksdb_iterator_t *iterator = rocksdb_create_iterator(db, read_options);
  rocksdb_iter_seek(iterator, key, KEY_BYTES);
  for (uint64_t at = 0; at < count && rocksdb_iter_valid(iterator); at++) {
    touched ^= *rocksdb_iter_key(iterator, &length);
    touched ^= *rocksdb_iter_value(iterator, &length);
    rocksdb_iter_next(iterator);
  }
  rocksdb_iter_get_error(iterator, &error);
  check(error);
  rocksdb_iter_destroy(iterator);
}

static void operate(struct client *client, uint64_t records) {
  char workload = client->workload;
  uint64_t percent = draw(client) % 100;
  if (workload == 'd') {
    if (percent < 5) return update(client, atomic_fetch_add(&inserted, 1));
    return read_record(atomic_load(&inserted) - 1 - zipf(client, records));
  }
  uint64_t record = mixed(zipf(client, records)) % records;
  if (workload == 'e') {
    if (percent < 5) return update(client, atomic_fetch_add(&inserted, 1));
    return scan(client, record);
  }
  uint64_t writes = workload == 'a' || workload == 'f' ? 50 : workload == 'b' ? 5 : 0;
  if (percent >= writes) return read_record(record);
  if (workload == 'f') read_record(record);
  update(client, record);
}

static void *run(void *given) {
  struct client *client = given;
  uint64_t records = atomic_load(&inserted);
  if (client->workload == 'l') {
    uint64_t record;
    while ((record = atomic_fetch_add(&inserted, 1)) < operations) update(client, record);
  } else {
    for (uint64_t at = 0; at < operations / threads; at++) operate(client, records);
  }
  return NULL;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void run_workload(char workload, uint64_t count, uint64_t records) {
  struct client *clients = calloc(threads, sizeof *clients);
  pthread_t *handles = calloc(threads, sizeof *handles);
  operations = count;
  for (uint64_t at = 0; at < threads; at++) {
    clients[at].random = mixed((uint64_t)workload * 1000 + at);
    clients[at].workload = workload;
    /* Its sum takes a while, which no workload is charged for. */
    if (workload != 'l') zipf(&clients[at], records);
  }
  double begun = now();
  for (uint64_t at = 0; at < threads; at++) pthread_create(&handles[at], NULL, run, &clients[at]);
  for (uint64_t at = 0; at < threads; at++) pthread_join(handles[at], NULL);
  printf("%s %.0f\n", workload == 'l' ? "load" : (char[]){workload, 0}, (double)count / (now() - begun));
  fflush(stdout);
  free(clients);
  free(handles);
}

int main(int count, char **arguments) {
  char *error = NULL;
  if (count != 6 || strtoull(arguments[2], NULL, 10) > VALUE_MAX) {
    fprintf(stderr, "usage: %s DIR VALUE_BYTES RECORDS OPERATIONS THREADS\n", arguments[0]);
    return 2;
  }
  value_bytes = strtoull(arguments[2], NULL, 10);
  uint64_t records = strtoull(arguments[3], NULL, 10), each = strtoull(arguments[4], NULL, 10);
  threads = strtoull(arguments[5], NULL, 10);

  rocksdb_options_t *options = rocksdb_options_create();
  rocksdb_block_based_table_options_t *tables = rocksdb_block_based_options_create();
  /* With four memtables of 64 MiB, both have 512 MiB: the least that Esker's library takes. */
  rocksdb_cache_t *cache = rocksdb_cache_create_lru(256 << 20);
  rocksdb_options_set_max_write_buffer_number(options, 4);
  rocksdb_block_based_options_set_block_cache(tables, cache);
  rocksdb_block_based_options_set_filter_policy(tables, rocksdb_filterpolicy_create_bloom_full(10));
  rocksdb_options_set_block_based_table_factory(options, tables);
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_compression(options, rocksdb_lz4_compression);
  rocksdb_options_set_max_background_jobs(options, 2);
  write_options = rocksdb_writeoptions_create();
  read_options = rocksdb_readoptions_create();
  db = rocksdb_open(options, arguments[1], &error);
  check(error);
  run_workload('l', records, 0);
  atomic_store(&inserted, records);
  for (const char *workload = "abcfde"; *workload != 0; workload++) {
    run_workload(*workload, *workload == 'e' ? each / 10 : each, records);
  }
  rocksdb_close(db);
  rocksdb_destroy_db(options, arguments[1], &error);
  check(error);
  return 0;
}
