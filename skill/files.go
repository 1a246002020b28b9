package skill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

const (
	// maxDepth is how many levels of folders are searched for skills.
	maxDepth = 6
	// maxFiles limits the files of one skill that are listed.
	maxFiles = 200
	manifest = "SKILL.md"
)

func notFound(name string) error {
	return &fs.PathError{Op: "load", Path: name, Err: fs.ErrNotExist}
}

// tree is a file system with skills in it.
type tree struct {
	fsys fs.FS
	// links permits symbolic links. It is set only for a file system that keeps them from leaving it.
	links bool
}

// FS returns a provider of the skills in a file system: every folder with a SKILL.md, at most 6 levels deep. It follows
// no symbolic links, and reads regular files only. The files are read anew when a turn begins and when a skill is
// loaded.
func FS(fsys fs.FS) Provider {
	return &folders{open: func() (*tree, func() error, error) { return &tree{fsys: fsys}, func() error { return nil }, nil }, roots: []string{"."}}
}

// Dirs returns a provider of the skills in .agents/skills and .claude/skills below each of the directories: first a
// project's directories, then for example the home directory. If two skills have one name, the first counts. Symbolic
// links may lead anywhere below their directory, and nowhere else. Directories and folders that do not exist have no
// skills.
func Dirs(dirs ...string) Provider {
	var list chain
	for _, dir := range dirs {
		list = append(list, &folders{roots: []string{".agents/skills", ".claude/skills"}, open: func() (*tree, func() error, error) {
			root, err := os.OpenRoot(dir)
			if err != nil {
				return nil, nil, err
			}
			return &tree{fsys: root.FS(), links: true}, root.Close, nil
		}})
	}
	return list
}

// folders provides the skills below some folders of a file system.
type folders struct {
	open  func() (*tree, func() error, error)
	roots []string
}

// found is a folder with a SKILL.md.
type found struct {
	dir   string
	skill *Skill
	raw   []byte
	err   error // why it cannot be used
}

// within calls fn with the skills, in the order of the roots and by path. Those that cannot be used are included.
func (f *folders) within(fn func(t *tree, list []found) error) error {
	t, closeTree, err := f.open()
	if errors.Is(err, fs.ErrNotExist) {
		return fn(nil, nil)
	}
	if err != nil {
		return err
	}
	defer closeTree()
	var list []found
	for _, root := range f.roots {
		list = append(list, t.find(root, maxDepth)...)
	}
	return fn(t, list)
}

func (f *folders) List(ctx context.Context) ([]Info, error) {
	infos, _, err := f.survey(ctx)
	return infos, err
}

func (f *folders) survey(context.Context) (infos []Info, ignored []string, err error) {
	at := map[string]string{}
	err = f.within(func(_ *tree, list []found) error {
		for _, s := range list {
			if s.err != nil {
				ignored = append(ignored, fmt.Sprintf("%s: %v", s.dir, s.err))
			} else if other, there := at[s.skill.Name]; there {
				ignored = append(ignored, fmt.Sprintf("%s: the skill %q is in %s too", s.dir, s.skill.Name, other))
			} else {
				at[s.skill.Name] = s.dir
				infos = append(infos, s.skill.Info)
			}
		}
		return nil
	})
	return infos, ignored, err
}

func (f *folders) Load(_ context.Context, name string) (s *Skill, err error) {
	err = f.with(name, func(t *tree, at found) (err error) {
		s = at.skill
		s.Files, err = t.list(at.dir)
		return err
	})
	return s, err
}

func (f *folders) ReadFile(_ context.Context, name, file string) (data []byte, err error) {
	err = f.with(name, func(t *tree, at found) (err error) {
		data, err = t.read(path.Join(at.dir, file), MaxFile)
		return err
	})
	return data, err
}

// with calls fn with the skill of a name.
func (f *folders) with(name string, fn func(*tree, found) error) error {
	return f.within(func(t *tree, list []found) error {
		i := slices.IndexFunc(list, func(s found) bool { return s.err == nil && s.skill.Name == name })
		if i < 0 {
			return notFound(name)
		}
		return fn(t, list[i])
	})
}

// find returns the skills in a folder and the folders in it. Skills do not nest.
func (t *tree) find(dir string, depth int) (list []found) {
	raw, err := t.read(path.Join(dir, manifest), MaxBody+64<<10)
	if err == nil {
		s, err := Parse(t.nameOf(dir), raw)
		return []found{{dir, s, raw, err}}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return []found{{dir: dir, err: err}}
	}
	if depth == 0 {
		return nil
	}
	entries, err := fs.ReadDir(t.fsys, dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.Name() == ".git" || e.Name() == "node_modules" || !t.isDir(name, e) {
			continue
		}
		list = append(list, t.find(name, depth-1)...)
	}
	return list
}

// nameOf returns the name of a folder; "" for the root of the file system, which has none.
func (t *tree) nameOf(dir string) string {
	if dir == "." {
		return ""
	}
	return path.Base(dir)
}

func (t *tree) isDir(name string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 || !t.links {
		return e.IsDir()
	}
	info, err := fs.Stat(t.fsys, name)
	return err == nil && info.IsDir()
}

// list returns the files of a skill other than its SKILL.md, by path.
func (t *tree) list(dir string) (files []File, err error) {
	err = fs.WalkDir(t.fsys, dir, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == ".git" || e.Name() == "node_modules"):
			return fs.SkipDir
		case name == path.Join(dir, manifest) || !e.Type().IsRegular():
			return nil
		case len(files) == maxFiles:
			return fs.SkipAll
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel := name
		if dir != "." {
			rel = strings.TrimPrefix(name, dir+"/")
		}
		files = append(files, File{rel, info.Size()})
		return nil
	})
	return files, err
}

// read reads a regular file.
func (t *tree) read(name string, limit int64) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrInvalid}
	}
	if err := t.checkLinks(name); err != nil {
		return nil, err
	}
	info, err := fs.Stat(t.fsys, name) // before it is opened: opening a FIFO would wait
	if err != nil {
		return nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
	case info.Size() > limit:
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("larger than %d KiB", limit>>10)}
	}
	f, err := t.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(raw)) > limit { // it grew meanwhile
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("larger than %d KiB", limit>>10)}
	}
	return raw, err
}

// checkLinks refuses a path with a symbolic link in it, unless links are permitted.
func (t *tree) checkLinks(name string) error {
	fsys, ok := t.fsys.(fs.ReadLinkFS)
	if !ok || t.links {
		return nil
	}
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '/' {
			continue
		}
		info, err := fsys.Lstat(name[:i])
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return &fs.PathError{Op: "read", Path: name, Err: errors.New("is a symbolic link")}
		}
	}
	return nil
}

// Join returns one provider of the skills of several. If two skills have one name, the first counts.
func Join(providers ...Provider) Provider { return chain(slices.Clone(providers)) }

type chain []Provider

func (c chain) List(ctx context.Context) ([]Info, error) {
	infos, _, err := c.survey(ctx)
	return infos, err
}

// surveyor is a provider that also says which skills it leaves out, and why.
type surveyor interface {
	survey(ctx context.Context) (infos []Info, ignored []string, err error)
}

func (c chain) survey(ctx context.Context) (all []Info, ignored []string, err error) {
	for _, p := range c {
		var list []Info
		var more []string
		if s, ok := p.(surveyor); ok {
			list, more, err = s.survey(ctx)
		} else {
			list, err = p.List(ctx)
		}
		if err != nil {
			return nil, nil, err
		}
		ignored = append(ignored, more...)
		for _, info := range list {
			if !slices.ContainsFunc(all, func(o Info) bool { return o.Name == info.Name }) {
				all = append(all, info)
			}
		}
	}
	return all, ignored, nil
}

func (c chain) Load(ctx context.Context, name string) (*Skill, error) {
	_, s, err := c.find(ctx, name)
	return s, err
}

func (c chain) ReadFile(ctx context.Context, name, file string) ([]byte, error) {
	p, _, err := c.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return p.ReadFile(ctx, name, file)
}

// find returns a skill and the first provider that has it.
func (c chain) find(ctx context.Context, name string) (Provider, *Skill, error) {
	for _, p := range c {
		if s, err := p.Load(ctx, name); !errors.Is(err, fs.ErrNotExist) {
			return p, s, err
		}
	}
	return nil, nil, notFound(name)
}

// Check returns the mistakes in the skills of a file system, by the strict rules for those who write skills. Besides
// those that [Parse] reports, these are folders that [FS] leaves out and names that occur twice. n is the number of
// skills.
func Check(fsys fs.FS) (problems []Problem, n int) {
	t := &tree{fsys: fsys}
	at := map[string]string{}
	for _, s := range t.find(".", maxDepth) {
		n++
		file := path.Join(s.dir, manifest)
		if s.raw == nil {
			problems = append(problems, Problem{file, s.err.Error()})
			continue
		}
		problems = append(problems, check(file, t.nameOf(s.dir), s.raw)...)
		if s.err != nil {
			continue
		}
		if other, there := at[s.skill.Name]; there {
			problems = append(problems, Problem{file, fmt.Sprintf("name: %q is the name of %s too", s.skill.Name, other)})
		}
		at[s.skill.Name] = file
	}
	return problems, n
}

// Digest returns the digest of a file in the form of [Info.Digests].
func Digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// digest identifies the text of a skill's instructions.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}
