// Package pages has the system put memory behind long slices before they are
// used. A column of millions of rows is filled once from its beginning to its
// end; a page fault for every 4 KiB of it takes longer than filling them, and
// longer than asking for many pages in one call, on another core.
package pages

import (
	"runtime"
	"syscall"
	"unsafe"
)

// populate is MADV_POPULATE_WRITE: fault pages in without changing them.
const populate = 23

// Touch puts pages behind s. It neither reads nor writes what is there, so s
// may be in use meanwhile; a system that takes no such advice faults later.
func Touch[T any](s []T) {
	size := uintptr(len(s)) * unsafe.Sizeof(*new(T))
	if size == 0 {
		return
	}
	// Whole pages: those at the ends are the heap's, too.
	start := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	first := start &^ uintptr(syscall.Getpagesize()-1)
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, first, start+size-first, populate)
	runtime.KeepAlive(s)
}
