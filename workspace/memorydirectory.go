package workspace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxIdleMemory is how many bytes of closed directories a provider in memory keeps.
const maxIdleMemory = 256 << 20

// memoryProvider is the provider of Memory.
type memoryProvider struct {
	mu    sync.Mutex
	idle  map[string]*memoryDirectory // closed directories by id
	bytes int64
}

// Memory returns a provider that keeps files in the memory of the process, and runs no commands. It is a cache of the
// last snapshots: the process keeps up to 256 MiB of files that no call uses.
func Memory() Provider { return &memoryProvider{idle: map[string]*memoryDirectory{}} }

// Info implements Provider.
func (*memoryProvider) Info() Info { return Info{Name: "memory"} }

// Open implements Provider.
func (p *memoryProvider) Open(_ context.Context, id string) (Directory, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.idle[id]; d != nil {
		p.drop(d)
		return d, nil
	}
	return &memoryDirectory{in: p, id: id, items: map[string]memoryItem{}, notes: map[string][]byte{}}, nil
}

func (p *memoryProvider) drop(d *memoryDirectory) {
	delete(p.idle, d.id)
	p.bytes -= d.size()
}

// Sweep implements Provider.
func (p *memoryProvider) Sweep(_ context.Context, idle time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.idle {
		if time.Since(d.closed) >= idle {
			p.drop(d)
		}
	}
	return nil
}

// memoryDirectory is a Directory in memory.
type memoryDirectory struct {
	in     *memoryProvider
	id     string
	items  map[string]memoryItem
	notes  map[string][]byte
	closed time.Time
}

type memoryItem struct {
	Entry
	data []byte // never modified
}

func (d *memoryDirectory) size() (n int64) {
	for _, item := range d.items {
		n += 256 + item.Size
	}
	return n
}

// Walk implements Directory.
func (d *memoryDirectory) Walk(ctx context.Context, fn func(Entry) error) error {
	for _, p := range slices.Sorted(maps.Keys(d.items)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fn(d.items[p].Entry); err != nil {
			return err
		}
	}
	return nil
}

// follow returns the path of an entry without links among its elements; the last one is followed if last is true.
func (d *memoryDirectory) follow(name string, last bool) (string, error) {
	if !fs.ValidPath(name) {
		return "", pathError(name, fs.ErrInvalid)
	}
	at, rest, hops := ".", strings.Split(name, "/"), 0
	for len(rest) > 0 {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		item, ok := d.items[next]
		if !ok || item.Kind != Link || len(rest) == 0 && !last {
			at = next
			continue
		}
		to := path.Join(path.Dir(next), item.Target)
		if hops++; hops > 40 || path.IsAbs(item.Target) || to == ".." || strings.HasPrefix(to, "../") {
			return "", pathError(name, errors.New("the link leads out of the workspace"))
		}
		at, rest = ".", append(strings.Split(to, "/"), rest...)
	}
	return at, nil
}

// Stat implements Directory.
func (d *memoryDirectory) Stat(name string) (Entry, error) {
	at, err := d.follow(name, false)
	if err != nil {
		return Entry{}, err
	}
	if at == "." {
		return Entry{Path: at, Kind: Dirs}, nil
	}
	item, ok := d.items[at]
	if !ok {
		return Entry{}, pathError(name, fs.ErrNotExist)
	}
	return item.Entry, nil
}

// Open implements Directory.
func (d *memoryDirectory) Open(name string) (io.ReadCloser, Entry, error) {
	at, err := d.follow(name, true)
	if err != nil {
		return nil, Entry{}, err
	}
	e, err := d.Stat(at)
	if err != nil {
		return nil, Entry{}, pathError(name, err)
	}
	if e.Kind != File {
		return nil, Entry{}, pathError(name, errors.New("is a directory"))
	}
	e.Path = name
	return io.NopCloser(bytes.NewReader(d.items[at].data)), e, nil
}

// Write implements Directory.
func (d *memoryDirectory) Write(name string, executable bool, content io.Reader) error {
	data, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	at, err := d.place(name)
	if err != nil {
		return err
	}
	if d.items[at].Kind == Dirs {
		return pathError(name, errors.New("is a directory"))
	}
	d.items[at] = memoryItem{Entry{Path: at, Kind: File, Size: int64(len(data)), Executable: executable}, data}
	return nil
}

// place makes the directory of a new entry, and returns the entry's path without links.
func (d *memoryDirectory) place(name string) (string, error) {
	at, err := d.follow(name, false)
	if err == nil && at == "." {
		err = pathError(name, fs.ErrExist)
	}
	if err != nil {
		return "", err
	}
	return at, d.Mkdir(path.Dir(at))
}

// Link implements Directory.
func (d *memoryDirectory) Link(name, target string) error {
	at, err := d.place(name)
	if err != nil {
		return err
	}
	if _, ok := d.items[at]; ok {
		return pathError(name, fs.ErrExist)
	}
	d.items[at] = memoryItem{Entry: Entry{Path: at, Kind: Link, Target: target}}
	return nil
}

// Mkdir implements Directory.
func (d *memoryDirectory) Mkdir(name string) error {
	at, err := d.follow(name, true)
	if err != nil || at == "." {
		return err
	}
	switch item, ok := d.items[at]; {
	case !ok:
	case item.Kind == Dirs:
		return nil
	default:
		return pathError(name, errors.New("is not a directory"))
	}
	if err := d.Mkdir(path.Dir(at)); err != nil {
		return err
	}
	d.items[at] = memoryItem{Entry: Entry{Path: at, Kind: Dirs}}
	return nil
}

// Remove implements Directory.
func (d *memoryDirectory) Remove(name string) error {
	at, err := d.follow(name, false)
	if err != nil {
		return err
	}
	maps.DeleteFunc(d.items, func(p string, _ memoryItem) bool { return p == at || strings.HasPrefix(p, at+"/") })
	return nil
}

// Note implements Directory.
func (d *memoryDirectory) Note(name string) ([]byte, error) { return d.notes[name], nil }

// SetNote implements Directory.
func (d *memoryDirectory) SetNote(name string, data []byte) error {
	d.notes[name] = data
	return nil
}

// Reset implements Directory.
func (d *memoryDirectory) Reset() error { return nil }

// Close implements Directory. The provider keeps the directory, and drops others if there are too many bytes.
func (d *memoryDirectory) Close() error {
	p := d.in
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.idle[d.id]; old != nil {
		p.drop(old)
	}
	d.closed = time.Now()
	p.idle[d.id] = d
	for p.bytes += d.size(); p.bytes > maxIdleMemory; {
		oldest := d
		for _, o := range p.idle {
			if o.closed.Before(oldest.closed) {
				oldest = o
			}
		}
		p.drop(oldest)
	}
	return nil
}
