// Package view serves interactive pages of recordings on this machine alone: each input is
// a page, made when it is first asked for, and a page can hand over further files.
//
//	s, err := view.New(view.Options{Inputs: names, Make: make, MaxUpload: 1 << 30})
//	defer s.Close()
//	fmt.Println(s.URL())
//	err = s.Serve(ctx) // until ctx ends
//
// It listens on 127.0.0.1 only, every address begins with a token that nobody can guess,
// and what comes from another host's page is refused. It must not know what an input is or
// how a page is made: Make does that, into a folder that goes when the server ends.
package view

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Page is the name under which Make leaves the page in its folder; the columns of its
// devices lie beside it as "columns-0", "columns-1", …
const Page = "page.html"

// Options say what is served.
type Options struct {
	Inputs []string // each a page of its own
	// Make makes the page of an input into a folder. Only one is made at a time. An upload
	// lies in that folder, and is named relative to it.
	Make      func(ctx context.Context, input, folder string, uploaded bool) error
	MaxUpload int64 // bytes of a file that a page hands over
	MaxPages  int   // with those handed over; 0: 64
	// Patience is how long nothing may come of a file that is handed over; 0: half a minute.
	Patience time.Duration
}

// Server serves pages.
type Server struct {
	options  Options
	listener net.Listener
	token    string
	folder   string    // of what is made, which only this user can look into; goes with the server
	lock     io.Closer // says to others that the folder's server lives
	ctx      context.Context
	cancel   context.CancelFunc
	making   chan struct{} // holds one: making takes memory

	mu    sync.Mutex
	pages []*entry
	open  int // pages that aren't gone
}

// entry is a page, perhaps still to be made.
type entry struct {
	input, name string // name is shown
	uploaded    bool
	folder      string
	gone        bool // it couldn't be made; the server's mu guards it

	mu   sync.Mutex
	made bool
}

// New listens on a free port; nothing is served before Serve.
func New(o Options) (*Server, error) {
	if o.MaxPages == 0 {
		o.MaxPages = 64
	}
	if len(o.Inputs) > o.MaxPages {
		return nil, fmt.Errorf("view: %d inputs, at most %d can be viewed at once", len(o.Inputs), o.MaxPages)
	}
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	sweep(os.TempDir())
	folder, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		return nil, fmt.Errorf("view: no folder for pages: %w", err)
	}
	lock, err := hold(folder)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("view: no folder for pages: %w", err), os.RemoveAll(folder))
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("view: %w", err), os.RemoveAll(folder), lock.Close())
	}
	s := &Server{options: o, listener: listener, token: code(), folder: folder, lock: lock, making: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, input := range o.Inputs {
		s.add(&entry{input: input, name: filepath.Base(input)})
	}
	return s, nil
}

// code is a text that can't be guessed.
func code() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// add gives a page its folder. It must hold mu, or be alone.
func (s *Server) add(e *entry) int {
	e.folder = filepath.Join(s.folder, fmt.Sprint(len(s.pages)))
	s.pages = append(s.pages, e)
	s.open++
	return len(s.pages) - 1
}

// Port is where it listens.
func (s *Server) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// URL is the address of the pages. Who knows it can read them.
func (s *Server) URL() string { return fmt.Sprintf("http://127.0.0.1:%d/%s/", s.Port(), s.token) }

// Door is the address of a file that leads on to the pages, and that only this user can read: a browser is
// started with it, as others of the machine see how programs are started.
func (s *Server) Door() (string, error) {
	name := filepath.Join(s.folder, "open.html")
	page := fmt.Sprintf(`<!doctype html><meta charset=utf-8><title>vramscope</title><meta name=referrer content=no-referrer>`+
		`<meta http-equiv=refresh content="0;url=%[1]s"><a href="%[1]s">The pages</a>`, s.URL())
	if err := os.WriteFile(name, []byte(page), 0o600); err != nil {
		return "", err
	}
	at := filepath.ToSlash(name)
	return (&url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(at, "/")}).String(), nil
}

// First makes the first input's page.
func (s *Server) First() error { return s.make(s.pages[0]) }

// Serve serves until the context ends.
func (s *Server) Serve(ctx context.Context) error {
	h := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() {
		s.cancel()
		soon, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if h.Shutdown(soon) != nil {
			_ = h.Close()
		}
	})
	defer stop()
	if err := h.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends what is being made, and removes what was.
func (s *Server) Close() error {
	s.cancel()
	_ = s.listener.Close()
	s.making <- struct{}{} // whoever still writes into the folder
	return errors.Join(os.RemoveAll(s.folder), s.lock.Close())
}

// folderPrefix begins the names of servers' folders.
const folderPrefix = "vramscope-view-"

// make makes a page, once; what failed is tried again for an input, which may be mended.
func (s *Server) make(e *entry) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.made {
		return nil
	}
	select {
	case s.making <- struct{}{}:
		defer func() { <-s.making }()
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	if err := os.MkdirAll(e.folder, 0o700); err != nil {
		return err
	}
	err := s.options.Make(s.ctx, e.input, e.folder, e.uploaded)
	if e.uploaded {
		_ = os.Remove(filepath.Join(e.folder, e.input))
	}
	e.made = err == nil
	return err
}
