/* Sorted tables of disjoint address ranges. */
#include "device.h"

#define MOST_ROWS (8u << 20) /* no program holds more blocks, and a runaway one ends here */

size_t ranges_after(const Ranges *r, u64 at) {
  size_t low = 0, high = r->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (r->rows[middle].at <= at) low = middle + 1; else high = middle;
  }
  return low;
}

Range *ranges_find(const Ranges *r, u64 at) {
  size_t i = ranges_after(r, at);
  if (!i) return NULL;
  Range *row = &r->rows[i - 1];
  return at - row->at < row->size ? row : NULL;
}

int ranges_add(Ranges *r, u64 at, u64 size, u64 tag) {
  if (r->count == r->room) {
    size_t room = r->room ? r->room * 2 : 64;
    Range *rows = room > MOST_ROWS ? NULL : realloc(r->rows, room * sizeof *rows);
    if (!rows) return 0;
    r->rows = rows;
    r->room = room;
  }
  size_t i = ranges_after(r, at);
  memmove(r->rows + i + 1, r->rows + i, (r->count - i) * sizeof *r->rows);
  r->rows[i] = (Range){at, size, tag};
  r->count++;
  return 1;
}

void ranges_remove(Ranges *r, Range *row) {
  size_t i = (size_t)(row - r->rows);
  memmove(row, row + 1, (r->count - i - 1) * sizeof *row);
  r->count--;
}

u64 ranges_fit(const Ranges *r, u64 low, u64 high, u64 size, u64 align) {
  if (size > high - low) return 0;
  u64 at = ROUND_UP(low, align);
  size_t first = ranges_after(r, low);
  for (size_t i = first ? first - 1 : 0; i < r->count && r->rows[i].at < high; i++) {
    if (r->rows[i].at >= at && r->rows[i].at - at >= size) break;
    u64 end = r->rows[i].at + r->rows[i].size;
    if (end > at) at = ROUND_UP(end, align);
  }
  return at <= high && high - at >= size ? at : 0;
}
