// Package pages talks to the system about memory in pages: it has pages put
// behind long slices before they are used, and looks at files where the system
// holds them anyway.
package pages

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// populate is MADV_POPULATE_WRITE: fault pages in without changing them.
const populate = 23

// Touch puts pages behind s. A column of millions of rows is filled once from
// its beginning to its end; a page fault for every 4 KiB of it takes longer than
// filling them, and longer than asking for many pages in one call, on another
// core. It neither reads nor writes what is there, so s may be in use meanwhile;
// a system that takes no such advice faults later.
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

const (
	hugePage = 2 << 20   // of most machines
	worth    = 128 << 10 // bytes that are worth the call
)

// Huge asks for pages of 2 MiB behind s, before anything is put there, where the
// system has such for those who ask: a fault in place of 512, and fewer places
// for the processor to remember. What lies beside s in the same pages may get
// them, too.
func Huge[T any](s []T) {
	size := uintptr(cap(s)) * unsafe.Sizeof(*new(T))
	if size < worth {
		return
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	first, end := start&^(hugePage-1), (start+size+hugePage-1)&^(hugePage-1)
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, first, end-first, syscall.MADV_HUGEPAGE)
	runtime.KeepAlive(s)
}

// Map is the first size bytes of a file, to be read from the beginning to the
// end and then to be unmapped. Reading what can't be had, as of a file that has
// become shorter, is a fault.
func Map(f *os.File, size int) ([]byte, error) {
	b, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	if err == nil {
		_ = syscall.Madvise(b, syscall.MADV_SEQUENTIAL)
	}
	return b, err
}

// Unmap ends the use of what Map gave.
func Unmap(b []byte) { _ = syscall.Munmap(b) }

// Leave takes bytes of a mapped file, which begin where a page does, out of what
// counts as this program's memory, until they are read again.
func Leave(b []byte) { _ = syscall.Madvise(b, syscall.MADV_DONTNEED) }
