package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/vramscope/vramscope/internal/cut"
)

// longestBase is how much of a file's name its temporary file has, in bytes: file systems
// take names of 255.
const longestBase = 200

// Beside makes a temporary file beside the one wanted, whose name it can take when
// it is complete. Its permissions are those of a file that is there already, else
// those that the user's mask leaves. mark is in its name.
func Beside(name, mark string) (*os.File, error) {
	folder, base := filepath.Split(name)
	if len(base) > longestBase {
		base = base[:cut.Whole(base, longestBase)]
	}
	var f *os.File
	err := fs.ErrExist
	for attempt := 0; attempt < 1000 && errors.Is(err, fs.ErrExist); attempt++ {
		f, err = os.OpenFile(folder+fmt.Sprintf(".%s%s%d", base, mark, rand.Uint64()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	}
	if err != nil {
		return nil, err
	}
	if was, err := os.Lstat(name); err == nil && was.Mode().IsRegular() {
		if err := f.Chmod(was.Mode().Perm()); err != nil {
			f.Close()
			os.Remove(f.Name())
			return nil, err
		}
	}
	return f, nil
}
