/* Processes of one machine share its GPUs: each tells the others what it has taken, in a file that all of them map. */
#define _GNU_SOURCE
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_PROCESSES 256
typedef struct { int pid, pad; u64 taken[MAX_DEVICES]; } Process; /* taken: with the context, by the machine's numbers */
static Process *processes, *own;

static void map_file(void) {
  const char *path = getenv("VRAMSCOPE_SIMULATED_BOOKS");
  int file = path && *path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
  size_t bytes = MOST_PROCESSES * sizeof *processes;
  struct stat s;
  if (file < 0) return;
  if (!fstat(file, &s) && (s.st_size >= (off_t)bytes || !ftruncate(file, (off_t)bytes))) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at != MAP_FAILED) processes = at;
  }
  close(file);
}

static int ended(int pid) { return kill(pid, 0) && errno == ESRCH; }

/* A row that nobody has, or whose process has ended. A child that was forked takes one of its own. */
static Process *own_row(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, map_file);
  int self = (int)getpid();
  if (!processes || (own && own->pid == self)) return own;
  own = NULL;
  for (int i = 0; i < MOST_PROCESSES && !own; i++) {
    int pid = __atomic_load_n(&processes[i].pid, __ATOMIC_ACQUIRE);
    if (pid && !ended(pid)) continue;
    if (__atomic_compare_exchange_n(&processes[i].pid, &pid, self, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) own = &processes[i];
  }
  if (own) memset(own->taken, 0, sizeof own->taken);
  return own;
}

void publish(int device) {
  Process *p = own_row();
  u64 taken = devices[device].active ? gpu.context + devices[device].used : 0;
  if (p) __atomic_store_n(&p->taken[visible[device]], taken, __ATOMIC_RELEASE);
}

int others(int physical, unsigned *pids, u64 *bytes, int room) {
  int n = 0;
  for (int i = 0; own_row() && i < MOST_PROCESSES && n < room; i++) {
    int pid = __atomic_load_n(&processes[i].pid, __ATOMIC_ACQUIRE);
    u64 taken = __atomic_load_n(&processes[i].taken[physical], __ATOMIC_ACQUIRE);
    if (!pid || !taken || taken > gpu.total || &processes[i] == own || ended(pid)) continue;
    pids[n] = (unsigned)pid;
    bytes[n++] = taken;
  }
  return n;
}

u64 taken_by_others(int device) {
  unsigned pids[MOST_PROCESSES];
  u64 bytes[MOST_PROCESSES], sum = 0;
  for (int n = others(visible[device], pids, bytes, MOST_PROCESSES); n-- > 0;) sum += bytes[n];
  return sum;
}

__attribute__((destructor)) static void leave(void) {
  if (own && own->pid == (int)getpid()) {
    memset(own->taken, 0, sizeof own->taken);
    __atomic_store_n(&own->pid, 0, __ATOMIC_RELEASE);
  }
}
