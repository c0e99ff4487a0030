/* Runs something again and again, while memory and open files must not grow. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What an allocator may hold back for threads that have ended, in KiB, and files of a flush. */
enum { SLACK = 32768, FILES_SLACK = 8 };

static long resident(void) {
  long pages = 0, all = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &all, &pages) != 2) exit(1);
  fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int open_files(void) {
  int count = 0;
  DIR *dir = opendir("/proc/self/fd");
  if (dir == NULL) exit(1);
  while (readdir(dir) != NULL) count++;
  closedir(dir);
  return count;
}

/* Prints the resident memory after each tenth. Returns whether the last two fifths have grown by no
   more than the slack: before, caches fill. Where `held` is not NULL, it says how many KiB of MemTables the
   database has then; they fill until a flush, and do not count. */
static int cycle(const char *name, void (*run)(void *), void *with, long count,
                 long (*held)(void *)) {
  long before = 0, last = 0;
  int files = open_files();
  printf("%s, %ld times, KiB:", name, count);
  for (int tenth = 0; tenth < 10; tenth++) {
    for (long at = 0; at < count / 10; at++) run(with);
    last = resident() - (held == NULL ? 0 : held(with));
    if (tenth == 5) before = last;
    printf(" %ld", last);
    fflush(stdout);
  }
  int is_flat = last <= before + SLACK && open_files() <= files + FILES_SLACK;
  printf("%s\n", is_flat ? "" : ": grows");
  return is_flat;
}
