package input

import (
	"cmp"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	"github.com/vramscope/vramscope/internal/pages"
)

// passing is how many bytes of a mapped file are held behind its reader.
const passing = 16 << 20

// mapped is a file as the system holds it, read once from its beginning to its
// end without a copy. What was read is given back, so that it doesn't count as
// this program's memory.
type mapped struct {
	file *os.File
	b    []byte
	left int // given back up to here
}

// mapFile maps a file of a known size; nil where that can't be done.
func mapFile(f *os.File, size int64) *mapped {
	if size <= 0 || size > math.MaxInt {
		return nil
	}
	b, err := pages.Map(f, int(size))
	if err != nil {
		return nil
	}
	return &mapped{file: f, b: b}
}

func (m *mapped) close() { pages.Unmap(m.b) }

// pass gives back what lies before p.
func (m *mapped) pass(p int) {
	if p -= p % passing; p > m.left {
		pages.Leave(m.b[m.left:p])
		m.left = p
	}
}

// guard calls what reads the file and is told where the file could not be read:
// it has become shorter meanwhile, or its disk is broken. Any other panic goes on.
func (m *mapped) guard(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
			if err != nil { // zeros may have stood for what was gone of its last page
				err = cmp.Or(m.shorter(), err)
			}
		case interface {
			runtime.Error
			Addr() uintptr
		}:
			at := r.Addr() - uintptr(unsafe.Pointer(unsafe.SliceData(m.b)))
			if at >= uintptr(len(m.b)) {
				panic(r)
			}
			if err = m.shorter(); err == nil {
				err = &Error{Offset: int64(at), Cause: "can't be read: its disk may be damaged", Err: ErrUnread}
			}
		default:
			panic(r)
		}
	}()
	return read()
}

// shorter is an error if the file is no longer as long as it was.
func (m *mapped) shorter() error {
	if st, err := m.file.Stat(); err == nil && st.Size() < int64(len(m.b)) {
		return &Error{Offset: st.Size(), Cause: "the file became shorter while it was read", Err: ErrUnread}
	}
	return nil
}
