package workspace

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// processID identifies this process, among all that were ever started.
var processID = rand.Text()

// localDirectory is a Directory of this machine. All access is through an os.Root, so that links do not lead out of it.
type localDirectory struct {
	*slots
	slot string
	lock *os.File
	root *os.Root
}

// Walk implements Directory. Directories deeper than paths may be are not walked.
func (d *localDirectory) Walk(ctx context.Context, fn func(Entry) error) error {
	return d.walk(ctx, d.root, "", maxDepth, fn)
}

// walk walks a directory, down to the given number of levels. It opens each directory below its parent, so that the cost
// of an entry does not grow with its depth. Directories whose mode denies changes to the owner lose that mode: otherwise
// nothing below them could be removed or restored.
func (d *localDirectory) walk(ctx context.Context, in *os.Root, at string, levels int, fn func(Entry) error) error {
	f, err := readable(in, ".", os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().Perm()&0o700 != 0o700 {
		_ = f.Chmod(info.Mode().Perm() | 0o700) // what needs it fails
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		list, err := f.ReadDir(256)
		for _, item := range list {
			info, err := in.Lstat(item.Name())
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed in the meantime, by a process in the background
			}
			if err != nil {
				return err
			}
			e := describe(in, item.Name(), info)
			e.Path = path.Join(at, item.Name())
			if err := fn(e); err != nil {
				return err
			}
			if e.Kind != Dirs || levels == 0 {
				continue
			}
			if err := d.walkBelow(ctx, in, item.Name(), e.Path, levels-1, fn); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (d *localDirectory) walkBelow(ctx context.Context, in *os.Root, name, at string, levels int, fn func(Entry) error) error {
	below, err := in.OpenRoot(name)
	if errors.Is(err, fs.ErrPermission) && in.Chmod(name, 0o700) == nil {
		below, err = in.OpenRoot(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer below.Close()
	return d.walk(ctx, below, at, levels, fn)
}

// readable opens a file or directory. If its mode denies that to the owner, the mode is changed: snapshots keep no
// modes.
func readable(in *os.Root, name string, flag int) (*os.File, error) {
	f, err := in.OpenFile(name, flag, 0)
	if errors.Is(err, fs.ErrPermission) && in.Chmod(name, 0o700) == nil {
		f, err = in.OpenFile(name, flag, 0)
	}
	return f, err
}

// describe returns the entry of a file in a directory, without its path.
func describe(in *os.Root, name string, info os.FileInfo) (e Entry) {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		e.Kind, e.Size, e.Executable = File, info.Size(), mode&0o100 != 0
		e.Stamp, e.Changed = stampOf(info)
	case mode.IsDir():
		e.Kind = Dirs
	case mode.Type() == fs.ModeSymlink:
		var err error
		if e.Target, err = in.Readlink(name); err == nil {
			e.Kind = Link
			break
		}
		fallthrough
	default:
		e.Kind = Special
	}
	return e
}

// Stat implements Directory.
func (d *localDirectory) Stat(name string) (Entry, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return Entry{}, pathError(name, err)
	}
	e := describe(d.root, name, info)
	e.Path = name
	return e, nil
}

// Open implements Directory.
func (d *localDirectory) Open(name string) (io.ReadCloser, Entry, error) {
	f, err := readable(d.root, name, os.O_RDONLY|openQuietly)
	if err != nil {
		return nil, Entry{}, pathError(name, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: notRegular(info)}
	}
	if err != nil {
		return nil, Entry{}, errors.Join(err, f.Close())
	}
	e := Entry{Path: name, Kind: File, Size: info.Size(), Executable: info.Mode()&0o100 != 0}
	e.Stamp, e.Changed = stampOf(info)
	return f, e, nil
}

func notRegular(info os.FileInfo) error {
	if info.IsDir() {
		return errors.New("is a directory")
	}
	return errors.New("is not a regular file")
}

// Write implements Directory. The content becomes a new file, which then takes the name.
func (d *localDirectory) Write(name string, executable bool, content io.Reader) error {
	if err := d.Mkdir(path.Dir(name)); err != nil {
		return err
	}
	temp := path.Join(path.Dir(name), ".cairn-"+rand.Text())
	mode := fs.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	f, err := d.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return pathError(name, err)
	}
	_, err = io.Copy(f, content)
	if d.uid >= 0 {
		err = cmp.Or(err, f.Chown(d.uid, d.uid))
	}
	err = cmp.Or(err, f.Chmod(mode)) // whatever the umask
	err = cmp.Or(err, f.Close())
	if err == nil {
		err = d.root.Rename(temp, name)
	}
	if err != nil {
		_ = d.root.Remove(temp)
		return pathError(name, err)
	}
	return nil
}

// Link implements Directory.
func (d *localDirectory) Link(name, target string) error {
	if err := d.Mkdir(path.Dir(name)); err != nil {
		return err
	}
	if err := d.root.Symlink(filepath.FromSlash(target), name); err != nil {
		return pathError(name, err)
	}
	return d.own(name)
}

func (d *localDirectory) own(name string) error {
	if d.uid < 0 {
		return nil
	}
	return pathError(name, d.root.Lchown(name, d.uid, d.uid))
}

// Mkdir implements Directory.
func (d *localDirectory) Mkdir(name string) error {
	if info, err := d.root.Stat(name); err == nil {
		if info.IsDir() {
			return nil
		}
		return &fs.PathError{Op: "mkdir", Path: name, Err: errors.New("is not a directory")}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return pathError(name, err)
	}
	if err := d.Mkdir(path.Dir(name)); err != nil {
		return err
	}
	if err := d.root.Mkdir(name, 0o755); err != nil {
		return pathError(name, err)
	}
	return d.own(name)
}

// shallow is how many levels of directories are removed at once.
const shallow = 32

// Remove implements Directory. Each level of what is removed takes an open file, and commands can make a million levels:
// deeper directories are first moved to the root.
func (d *localDirectory) Remove(name string) error {
	for list := []string{name}; len(list) > 0; {
		name, list = list[0], list[1:]
		if info, err := d.root.Lstat(name); err == nil && info.IsDir() {
			var deep []string
			err := d.walkBelow(context.Background(), d.root, name, name, shallow, func(e Entry) error {
				if e.Kind == Dirs && strings.Count(e.Path, "/")-strings.Count(name, "/") > shallow {
					deep = append(deep, e.Path)
				}
				return nil
			})
			if err != nil {
				return pathError(name, err)
			}
			for _, p := range deep {
				to := ".cairn-" + rand.Text()
				if err := d.root.Rename(p, to); err != nil {
					return pathError(name, err)
				}
				list = append(list, to)
			}
		}
		if err := d.root.RemoveAll(name); err != nil {
			return pathError(name, err)
		}
	}
	return nil
}

// pathError returns an error about a path of the workspace, without the paths of the machine.
func pathError(name string, err error) error {
	if err == nil {
		return nil
	}
	for {
		var p *fs.PathError
		var l *os.LinkError
		switch {
		case errors.As(err, &p):
			err = p.Err
		case errors.As(err, &l):
			err = l.Err
		default:
			if errors.Is(err, fs.ErrNotExist) {
				err = fs.ErrNotExist // in the same words everywhere
			}
			return &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// Note implements Directory. A note begins with the id of the boot that it was made in.
func (d *localDirectory) Note(name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(d.slot, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	boot, note, _ := bytes.Cut(data, []byte("\n"))
	if string(boot) != bootID() {
		return nil, nil
	}
	return note, nil
}

// SetNote implements Directory.
func (d *localDirectory) SetNote(name string, data []byte) error {
	name = filepath.Join(d.slot, name)
	if data == nil {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	temp := name + ".new"
	if err := os.WriteFile(temp, append([]byte(bootID()+"\n"), data...), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, name)
}

// Reset implements Directory.
func (d *localDirectory) Reset() error {
	home := filepath.Join(d.slot, homeDir)
	if err := removeAll(home); err != nil {
		return fmt.Errorf("empty the home directory: %w", err)
	}
	return d.makeDir(home)
}

// Close implements Directory.
func (d *localDirectory) Close() error { return errors.Join(d.root.Close(), d.lock.Close()) }

// entrySize is what an entry counts besides its content: empty files take room, too.
const entrySize = 1 << 10

// Usage implements measured.
func (d *localDirectory) Usage(ctx context.Context) (size int64, err error) {
	for _, name := range []string{filesDir, homeDir} {
		root, err := openRoot(filepath.Join(d.slot, name))
		if err != nil {
			return 0, err
		}
		err = d.walk(ctx, root, "", maxDepth, func(e Entry) error {
			size += e.Size + entrySize
			if e.Kind == Dirs && strings.Count(e.Path, "/") >= maxDepth {
				size = math.MaxInt64 / 2 // nobody knows the size below
			}
			return nil
		})
		if err := errors.Join(err, root.Close()); err != nil {
			return 0, err
		}
	}
	return size, nil
}
