// Package pages asks the system for large pages behind large slices: a column
// of millions of rows is touched once from its beginning to its end, and most of
// that time would go into one page fault for every 4 KiB.
package pages

import (
	"syscall"
	"unsafe"
)

// least is the size from which a slice is worth the call, in bytes.
const least = 512 << 10

// Make is make([]T, length, capacity); the system is free to ignore the advice.
func Make[T any](length, capacity int) []T {
	s := make([]T, length, capacity)
	if size := capacity * int(unsafe.Sizeof(*new(T))); size >= least {
		b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), size)
		_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE)
	}
	return s
}
