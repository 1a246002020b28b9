package sqlitestore

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
)

func absolute(path string) (string, error) {
	if path == "" {
		return "", cairn.Invalid("path", "is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", cairn.Invalid("path", "%v", err)
	}
	return path, nil
}

// creating is held while a file is created: closing it releases all locks that this process has on it.
var creating sync.Mutex

// create creates the file, if it is missing, for its owner only. The files that SQLite keeps next to it get the same
// permissions: they have conversations and secrets. If create fails, SQLite reports the error when it opens the file.
func create(path string) {
	creating.Lock()
	defer creating.Unlock()
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err == nil {
		f.Close()
	}
}

// sqlOverwrite makes SQLite overwrite with zeros what is deleted. It holds for the write connection from its first
// statement on: what an update, a trim or a step's commit left behind could not be found again when a session is erased.
// A step pays under 1 % for it, and about 4 % if it deletes staged replies.
const sqlOverwrite = `PRAGMA secure_delete = ON`

// openWriter opens the write connection.
func openWriter(path string, o *Options) (*writer, error) {
	create(path)
	c, w, err := openWatched(path, func() (*conn, error) {
		return connect(dataSource(path, "rwc"), busyPragma(o.BusyTimeout), "PRAGMA journal_size_limit = 67108864", sqlNormal, sqlOverwrite)
	})
	if err != nil {
		return nil, fault("open "+path, err)
	}
	if o.Now != nil {
		c.clock = o.Now
	}
	return &writer{conn: c, durable: o.Synchronous == Full, busyTimeout: o.BusyTimeout, watch: w,
		looking: func(_ context.Context, do func() error) error { return do() }}, nil
}

// dataSource returns the URI of a file; mode is ro, rw or rwc.
func dataSource(path, mode string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	if u.Path[0] != '/' {
		u.Path = "/" + u.Path // a drive letter
	}
	u.RawQuery = url.Values{"mode": {mode}, "_error_rc": {"1"}}.Encode()
	return u.String()
}

func busyPragma(d time.Duration) string {
	return fmt.Sprintf("PRAGMA busy_timeout = %d", d.Milliseconds())
}
