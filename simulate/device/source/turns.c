/* Which of all blocks that PyTorch's allocator has handed out lies at an address: who notes something of a tensor finds out
 * whether it is still that one. A table of open places, at most half full. */
#include "device.h"

typedef struct { u64 at, turn; } Place; /* at 0: open */
static Place *places;
static size_t n_places, n_taken;
static u64 turns;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void) { pthread_mutex_lock(&mutex); }
static void after_fork(void) { pthread_mutex_unlock(&mutex); }
__attribute__((constructor)) static void keep_forks_whole(void) { pthread_atfork(before_fork, after_fork, after_fork); }

static size_t home_of(u64 at) { return (size_t)((at * 0x9e3779b97f4a7c15ull) >> 24) & (n_places - 1); }

static Place *place_of(u64 at) { /* its own, or the open one where it would be */
  size_t i = home_of(at);
  while (places[i].at && places[i].at != at) i = (i + 1) & (n_places - 1);
  return places + i;
}

static int grow(void) {
  size_t before = n_places;
  Place *old = places, *more = calloc(before ? before * 2 : 4096, sizeof *more);
  if (!more) return 0;
  places = more;
  n_places = before ? before * 2 : 4096;
  for (size_t i = 0; i < before; i++)
    if (old[i].at) *place_of(old[i].at) = old[i];
  free(old);
  return 1;
}

static void give_up(Place *hole) { /* those behind it move up, so that none is cut off from its home */
  if (!hole->at) return;
  size_t open = (size_t)(hole - places);
  for (size_t i = (open + 1) & (n_places - 1); places[i].at; i = (i + 1) & (n_places - 1)) {
    if (((i - home_of(places[i].at)) & (n_places - 1)) < ((i - open) & (n_places - 1))) continue;
    places[open] = places[i];
    open = i;
  }
  places[open].at = 0;
  n_taken--;
}

void turn_taken(u64 at, int handed_out) {
  pthread_mutex_lock(&mutex);
  if (!handed_out && n_places) {
    give_up(place_of(at));
  } else if (handed_out && (2 * (n_taken + 1) <= n_places || grow())) {
    Place *p = place_of(at);
    n_taken += !p->at;
    *p = (Place){at, ++turns};
  }
  pthread_mutex_unlock(&mutex);
}

EXPORT u64 vramscope_simulated_turn(u64 at) {
  pthread_mutex_lock(&mutex);
  Place *p = n_places && at ? place_of(at) : NULL;
  u64 turn = p && p->at ? p->turn : 0;
  pthread_mutex_unlock(&mutex);
  return turn;
}
