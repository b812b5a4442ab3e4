package view

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vramscope/vramscope/internal/units"
)

// ServeHTTP answers requests of this machine's browser, and no others.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // which would carry the token
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	if !s.local(r) {
		http.Error(w, "not from here", http.StatusForbidden)
		return
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if subtle.ConstantTimeCompare([]byte(parts[0]), []byte(s.token)) != 1 || len(parts) < 2 {
		http.NotFound(w, r)
		return
	}
	switch parts = parts[1:]; {
	case len(parts) == 1 && parts[0] == "upload":
		s.upload(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "only to be read", http.StatusMethodNotAllowed)
	case len(parts) == 1 && parts[0] == "":
		http.Redirect(w, r, "0/", http.StatusSeeOther)
	case len(parts) == 1 && parts[0] == "files":
		s.files(w)
	case len(parts) == 2:
		s.page(w, r, parts[0], parts[1])
	default:
		http.NotFound(w, r)
	}
}

// local reports whether a request was meant for this server, by a page of its own or by none: a
// name that another's server gave to this machine's address is not its name.
func (s *Server) local(r *http.Request) bool {
	hosts := []string{fmt.Sprintf("127.0.0.1:%d", s.Port()), fmt.Sprintf("localhost:%d", s.Port())}
	origin, known := r.Header["Origin"]
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !known {
		return false // every browser says where something is sent from
	}
	for _, host := range hosts {
		if r.Host == host {
			return !known || len(origin) == 1 && origin[0] == "http://"+host
		}
	}
	return false
}

// files lists the pages that there are.
func (s *Server) files(w http.ResponseWriter) {
	type page struct {
		Page string `json:"page"`
		Name string `json:"name"`
	}
	s.mu.Lock()
	list := []page{}
	for i, e := range s.pages {
		if !e.gone {
			list = append(list, page{fmt.Sprintf("%d/", i), e.name})
		}
	}
	s.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{"pages": list, "most": s.options.MaxUpload})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// page answers with a page, or with the columns of one of its devices.
func (s *Server) page(w http.ResponseWriter, r *http.Request, number, name string) {
	s.mu.Lock()
	i, err := strconv.Atoi(number)
	if err != nil || i < 0 || i >= len(s.pages) || s.pages[i].gone || strconv.Itoa(i) != number {
		s.mu.Unlock()
		http.NotFound(w, r)
		return
	}
	e := s.pages[i]
	s.mu.Unlock()
	switch device, isColumns := strings.CutPrefix(name, "columns-"); {
	case name == "":
		name = Page
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
	case isColumns && isNumber(device):
		w.Header().Set("Content-Type", "application/octet-stream")
	default:
		http.NotFound(w, r)
		return
	}
	if err := s.make(e); err != nil {
		failed(w, e.name, err)
		return
	}
	file, err := os.Open(filepath.Join(e.folder, name))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		http.NotFound(w, r)
		return
	}
	http.ServeContent(w, r, "", info.ModTime(), file) // which serves ranges, too
}

func isNumber(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= 0 && strconv.Itoa(n) == s
}

// failed says why there is no page.
func failed(w http.ResponseWriter, name string, err error) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	w.WriteHeader(http.StatusUnprocessableEntity)
	fmt.Fprintf(w, "<!doctype html><meta charset=utf-8><title>vramscope</title><body style=\"font:16px sans-serif;margin:3em;"+
		"color-scheme:light dark\"><h1>No page of %s</h1><pre style=\"white-space:pre-wrap\">%s</pre><p><a href=\"../0/\">"+
		"Back to the first one</a></p>", html.EscapeString(name), html.EscapeString(err.Error()))
}

// upload takes a file that a page hands over, and makes a page of it.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, text string) { answer(w, status, map[string]string{"error": text}) }
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		refuse(http.StatusMethodNotAllowed, "files are sent by POST")
		return
	}
	tooLarge := "larger than " + units.Size(s.options.MaxUpload) + ", which --max-memory allows"
	if r.ContentLength > s.options.MaxUpload {
		refuse(http.StatusRequestEntityTooLarge, tooLarge)
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		refuse(http.StatusBadRequest, "no name that can be read")
		return
	}
	name := tame(query.Get("name"))
	s.mu.Lock()
	if s.open >= s.options.MaxPages {
		s.mu.Unlock()
		refuse(http.StatusInsufficientStorage, fmt.Sprintf("%d pages are open, which is the most", s.options.MaxPages))
		return
	}
	e := &entry{input: name, name: name, uploaded: true}
	e.mu.Lock() // until the file is there
	i := s.add(e)
	s.mu.Unlock()
	body := &patient{http.MaxBytesReader(w, r.Body, s.options.MaxUpload), http.NewResponseController(w), s.options.Patience}
	err = receive(filepath.Join(e.folder, name), body)
	e.mu.Unlock()
	if err == nil {
		err = s.make(e)
	}
	if err == nil {
		answer(w, http.StatusCreated, map[string]string{"page": fmt.Sprintf("%d/", i)})
		return
	}
	s.drop(e)
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		refuse(http.StatusRequestEntityTooLarge, tooLarge)
		return
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		refuse(http.StatusRequestTimeout, "nothing came for "+s.options.Patience.String())
		return
	}
	refuse(http.StatusUnprocessableEntity, err.Error())
}

// patient reads what a browser sends, and waits only so long for more of it.
type patient struct {
	body    io.Reader
	control *http.ResponseController
	wait    time.Duration
}

func (p *patient) Read(b []byte) (int, error) {
	if err := p.control.SetReadDeadline(time.Now().Add(p.wait)); err != nil {
		return 0, err
	}
	n, err := p.body.Read(b)
	if err != nil {
		_ = p.control.SetReadDeadline(time.Time{}) // what comes next on this connection has its own time
	}
	return n, err
}

// drop forgets a page that couldn't be made.
func (s *Server) drop(e *entry) {
	_ = os.RemoveAll(e.folder)
	s.mu.Lock()
	defer s.mu.Unlock()
	e.gone = true
	s.open--
}

// receive writes what is sent into a file.
func receive(name string, body io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, body)
	return errors.Join(err, file.Close())
}

// tame is a name that a browser gave to a file, as one that can lie in any folder.
func tame(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune("._-", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name[max(0, len(name)-100):])
	if name = strings.TrimLeft(name, ".-"); name == "" || name == Page || strings.HasPrefix(name, "columns-") {
		name = "file-" + name
	}
	return name
}
