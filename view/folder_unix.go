//go:build unix

package view

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lockName is a file in a server's folder that is locked as long as the server lives.
const lockName = "lock"

// hold locks a folder. The file has its name only once it is locked: who finds it can tell.
func hold(folder string) (io.Closer, error) {
	name := filepath.Join(folder, lockName)
	file, err := os.OpenFile(name+".new", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return file, nil // without locks nobody can tell, and the folder of a killed server stays
	}
	if err := os.Rename(name+".new", name); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// sweep removes the folders that servers of this user's left who were killed.
func sweep(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		folder := filepath.Join(dir, e.Name())
		if !strings.HasPrefix(e.Name(), folderPrefix) {
			continue
		}
		info, err := e.Info()
		if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
			continue
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Getuid() {
			continue
		}
		file, err := os.OpenFile(filepath.Join(folder, lockName), os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(folder)
		}
		file.Close()
	}
}
