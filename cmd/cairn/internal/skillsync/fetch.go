package skillsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport/client"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/cairn-agents/cairn/skill"
)

// Limits of a repository.
const (
	// maxDownload is the maximum size of what a server sends for one request, in bytes.
	maxDownload = 256 << 20
	// maxEntries is the maximum number of files and folders in a commit.
	maxEntries = 100_000
)

// commit is a commit of a repository, with its files by path.
type commit struct {
	address, ref, hash string

	repo    *git.Repository
	entries map[string]object.TreeEntry
}

// fetch fetches a commit: the pinned one, or the one that a ref names if none is pinned. dir is an empty directory for
// the objects.
func fetch(ctx context.Context, dir, address, ref, pinned string) (*commit, error) {
	limitDownloads()
	storage := filesystem.NewStorageWithOptions(osfs.New(dir), cache.NewObjectLRUDefault(), filesystem.Options{LargeObjectThreshold: skill.MaxFile})
	repo, err := git.Init(storage, nil)
	if err != nil {
		return nil, err
	}
	remote, err := repo.CreateRemote(&config.RemoteConfig{Name: "origin", URLs: []string{address}})
	if err != nil {
		return nil, err
	}
	c := &commit{address: address, ref: ref, repo: repo}
	hash := pinned
	var from plumbing.ReferenceName // of hash; empty for a commit
	if hash == "" {
		if hash, from, err = resolve(ctx, remote, ref); err != nil {
			return nil, err
		}
	}
	if err := get(ctx, remote, hash, from); err != nil {
		return nil, err
	}
	found, err := repo.ResolveRevision(plumbing.Revision(hash + "^{commit}"))
	if err != nil {
		return nil, fmt.Errorf("commit %s: %w", hash, err)
	}
	c.hash = found.String()
	return c, c.list()
}

// resolve returns what a ref names, and its whole name.
func resolve(ctx context.Context, remote *git.Remote, ref string) (hash string, name plumbing.ReferenceName, err error) {
	if plumbing.IsHash(ref) {
		return ref, "", nil
	}
	refs, err := remote.ListContext(ctx, &git.ListOptions{})
	if err != nil {
		return "", "", err
	}
	byName := map[plumbing.ReferenceName]*plumbing.Reference{}
	for _, r := range refs {
		byName[r.Name()] = r
	}
	names := []plumbing.ReferenceName{plumbing.NewTagReferenceName(ref), plumbing.NewBranchReferenceName(ref)}
	if ref == "" {
		names = []plumbing.ReferenceName{plumbing.HEAD}
	}
	for _, name := range names {
		r := byName[name]
		if r != nil && r.Type() == plumbing.SymbolicReference {
			name, r = r.Target(), byName[r.Target()]
		}
		if r != nil {
			return r.Hash().String(), name, nil
		}
	}
	return "", "", fmt.Errorf("ref: no tag or branch %q", ref)
}

// get fetches an object, alone if the server permits that, else with the history of all branches and tags.
func get(ctx context.Context, remote *git.Remote, hash string, from plumbing.ReferenceName) error {
	const here = "refs/heads/here"
	one := config.RefSpec(hash + ":" + here)
	if from != "" {
		one = config.RefSpec("+" + from.String() + ":" + here)
	}
	err := remote.FetchContext(ctx, &git.FetchOptions{RefSpecs: []config.RefSpec{one}, Depth: 1, Tags: git.NoTags})
	if err == nil || errors.Is(err, git.NoErrAlreadyUpToDate) || from != "" || ctx.Err() != nil {
		return ignoreUpToDate(err)
	}
	all := []config.RefSpec{"+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"}
	return ignoreUpToDate(remote.FetchContext(ctx, &git.FetchOptions{RefSpecs: all, Tags: git.NoTags}))
}

func ignoreUpToDate(err error) error {
	if errors.Is(err, git.NoErrAlreadyUpToDate) {
		return nil
	}
	return err
}

// list reads the names in the commit.
func (c *commit) list() error {
	at, err := c.repo.CommitObject(plumbing.NewHash(c.hash))
	if err != nil {
		return err
	}
	tree, err := at.Tree()
	if err != nil {
		return err
	}
	c.entries = map[string]object.TreeEntry{}
	walker := object.NewTreeWalker(tree, true, nil)
	defer walker.Close()
	for {
		name, entry, err := walker.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(c.entries) == maxEntries {
			return fmt.Errorf("commit %s has more than %d files and folders", c.hash, maxEntries)
		}
		c.entries[name] = entry
	}
}

// isDir reports whether the commit has a folder.
func (c *commit) isDir(name string) bool {
	return name == "." || c.entries[name].Mode == filemode.Dir
}

// has reports whether the commit has a file or a folder.
func (c *commit) has(name string) bool {
	_, ok := c.entries[name]
	return ok || name == "."
}

// read returns a file of the commit.
func (c *commit) read(name string, limit int64) ([]byte, error) {
	entry, ok := c.entries[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: no such file", name)
	case entry.Mode == filemode.Symlink:
		return nil, fmt.Errorf("%s: is a symbolic link", name)
	case entry.Mode == filemode.Submodule:
		return nil, fmt.Errorf("%s: is a submodule", name)
	case !entry.Mode.IsFile():
		return nil, fmt.Errorf("%s: is not a file", name)
	}
	blob, err := c.repo.BlobObject(entry.Hash)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if blob.Size > limit {
		return nil, fmt.Errorf("%s: larger than %d KiB", name, limit>>10)
	}
	r, err := blob.Reader()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	raw, err := io.ReadAll(io.LimitReader(r, limit))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return raw, nil
}

// safe reports whether a path can be written below a folder on every system.
func safe(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || strings.EqualFold(part, ".git") || strings.ContainsAny(part, "\\:\x00\n") {
			return false
		}
	}
	return path.Clean(name) == name && !path.IsAbs(name)
}

// limitDownloads limits what servers send by HTTP, for all repositories of this process.
var limitDownloads = sync.OnceFunc(func() {
	limited := githttp.NewClient(&http.Client{Transport: limiter{http.DefaultTransport}})
	client.InstallProtocol("http", limited)
	client.InstallProtocol("https", limited)
})

// limiter fails the body of a response that is too large.
type limiter struct{ http.RoundTripper }

func (l limiter) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(req)
	if err == nil {
		res.Body = &limitedBody{ReadCloser: res.Body, left: maxDownload}
	}
	return res, err
}

type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the server sends more than %d MiB", maxDownload>>20)
	}
	return n, err
}

// tempDir returns a directory for the objects of a repository, and the function that removes it.
func tempDir() (string, func(), error) {
	dir, err := os.MkdirTemp("", "skills-sync")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
