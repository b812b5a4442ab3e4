//go:build s3 || gs

package store

import (
	"cmp"
	"context"
	"encoding/hex"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// isFolder tells objects without content that consoles make for folders by
// their names below a prefix.
func isFolder(name string) bool { return name == "" || strings.HasSuffix(name, "/") }

// objectVersion tells a changed object from what it was.
func objectVersion(size int64, modified time.Time, md5 []byte) string {
	return strconv.FormatInt(size, 10) + "-" + strconv.FormatInt(modified.UnixNano(), 10) + "-" + hex.EncodeToString(md5)
}

// contentTypes let a browser show a report where it lies.
var contentTypes = map[string]string{".html": "text/html; charset=utf-8", ".json": "application/json",
	".md":  "text/markdown; charset=utf-8",
	".txt": "text/plain; charset=utf-8", ".csv": "text/csv; charset=utf-8", ".jsonl": "application/jsonl",
	".parquet": "application/vnd.apache.parquet"}

func contentType(name string) string {
	return cmp.Or(contentTypes[path.Ext(name)], "application/octet-stream")
}

// patience is how long a store may be silent: until it has accepted a connection,
// until the first byte of an answer, and between any two bytes.
type patience time.Duration

// usualPatience is far more than stores that work take, and little enough for
// somebody who waits.
const usualPatience = patience(20 * time.Second)

// limit makes a client's connections impatient.
func (p patience) limit(t *http.Transport) {
	silence := time.Duration(p)
	dial := (&net.Dialer{Timeout: silence, KeepAlive: silence}).DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return impatient{c, silence}, nil
	}
	t.TLSHandshakeTimeout, t.ResponseHeaderTimeout, t.IdleConnTimeout = silence, silence, silence
}

// impatient is a connection that breaks when nothing comes or goes for a while.
type impatient struct {
	net.Conn
	silence time.Duration
}

func (c impatient) Read(b []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(c.silence)) // a closed connection says so in the reading
	return c.Conn.Read(b)
}

// Write also gives who waits for the answer its time anew.
func (c impatient) Write(b []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(c.silence))
	return c.Conn.Write(b)
}
