/* Runs the programs of seeds: main DIR FIRST COUNT [CALLS...]. With CALLS, runs these calls alone. */
#include "compare.h"

static const struct {
  const char *name;
  void (*run)(void);
  unsigned weight;
} calls[] = {
    {"put", put, 14},
    {"merge", merge, 8},
    {"delete", delete_key, 6},
    {"single delete", delete_single, 4},
    {"delete range", delete_range, 3},
    {"batch", write_batch, 6},
    {"flush", flush, 2},
    {"compact", compact, 1},
    {"get", get, 10},
    {"multi get", multi_get, 4},
    {"snapshot", change_snapshots, 4},
    {"iterator", create_iterator, 6},
    {"move", use_iterator, 6},
    {"iterators", create_iterators, 2},
    {"change indexed", change_indexed, 6},
    {"read indexed", read_indexed, 6},
    {"write indexed", write_indexed, 2},
    {"begin", begin_transaction, 6},
    {"change in transaction", change_in_transaction, 12},
    {"read in transaction", read_in_transaction, 8},
    {"end transaction", end_transaction, 5},
    {"column family", change_families, 2},
    {"reopen", reopen, 1},
    {"checkpoint", checkpoint, 1},
    {"ingest", ingest, 1},
};

static void perform(uint64_t seed, uint64_t number) {
  unsigned total = 0, at = 0;
  draw_from(seed, number);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) total += calls[i].weight;
  unsigned drawn = (unsigned)draw(total);
  while (drawn >= calls[at].weight) drawn -= calls[at++].weight;
  printf("%llu: %s", (unsigned long long)number, calls[at].name);
  calls[at].run();
  printf("\n");
}

int main(int count, char **arguments) {
  if (count < 4) {
    fprintf(stderr, "usage: %s DIR FIRST COUNT [CALLS...]\n", arguments[0]);
    return 2;
  }
  uint64_t first = strtoull(arguments[2], NULL, 10), seeds = strtoull(arguments[3], NULL, 10);
  /* Of a program that crashes, the calls until then. */
  if (seeds == 1) setvbuf(stdout, NULL, _IOLBF, 0);
  for (uint64_t seed = first; seed < first + seeds; seed++) {
    printf("seed %llu:", (unsigned long long)seed);
    begin(arguments[1], seed);
    printf("\n");
    if (count > 4) {
      for (int at = 4; at < count; at++) perform(seed, strtoull(arguments[at], NULL, 10));
    } else {
      for (uint64_t number = 0; number < CALLS; number++) perform(seed, number);
    }
    end();
    fflush(stdout);
  }
  return 0;
}
