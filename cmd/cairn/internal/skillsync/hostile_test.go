package skillsync

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/skill"
)

// object writes a git object that git itself would not write, and returns its hash.
func (u *upstream) object(kind string, raw []byte) string {
	u.t.Helper()
	cmd := exec.Command("git", "-C", u.work, "hash-object", "-w", "-t", kind, "--stdin", "--literally")
	cmd.Stdin = bytes.NewReader(raw)
	out, err := cmd.CombinedOutput()
	if err != nil {
		u.t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// tree writes a tree of entries "mode name hash".
func (u *upstream) tree(entries ...string) string {
	u.t.Helper()
	var raw bytes.Buffer
	for _, e := range entries {
		fields := strings.Split(e, "|")
		hash, err := hex.DecodeString(fields[2])
		if err != nil {
			u.t.Fatal(err)
		}
		fmt.Fprintf(&raw, "%s %s\x00%s", fields[0], fields[1], hash)
	}
	return u.object("tree", raw.Bytes())
}

// push makes a tree the content of the branch.
func (u *upstream) push(tree string) {
	u.t.Helper()
	u.run("push", "--quiet", "--force", u.git, u.run("commit-tree", tree, "-m", "Hostile")+":refs/heads/main")
}

// A repository cannot write outside the folder of a skill, nor bring what is not a regular file.
func TestHostileTrees(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tree func(u *upstream, body, evil string) string
		want string
	}{
		"dots": {func(u *upstream, body, evil string) string { return u.tree("100644|..|"+evil, "100644|SKILL.md|"+body) }, "invalid path"},
		"dots in folder": {func(u *upstream, body, evil string) string {
			return u.tree("40000|..|"+u.tree("100644|x|"+evil), "100644|SKILL.md|"+body)
		}, "invalid path"},
		"slash": {func(u *upstream, body, evil string) string {
			return u.tree("100644|../../x|"+evil, "100644|SKILL.md|"+body)
		}, "invalid path"},
		"absolute": {func(u *upstream, body, evil string) string { return u.tree("100644|/x|"+evil, "100644|SKILL.md|"+body) }, "cannot be written"},
		"backslash": {func(u *upstream, body, evil string) string {
			return u.tree(`100644|..\x|`+evil, "100644|SKILL.md|"+body)
		}, "invalid path"},
		"git folder": {func(u *upstream, body, evil string) string {
			return u.tree("40000|.GIT|"+u.tree("100644|config|"+evil), "100644|SKILL.md|"+body)
		}, "invalid path"},
		"link": {func(u *upstream, body, evil string) string {
			return u.tree("100644|SKILL.md|"+body, "120000|link|"+evil)
		}, "pdf/link: is a symbolic link"},
		"linked skill": {func(u *upstream, body, evil string) string { return u.tree("120000|SKILL.md|" + evil) }, "pdf/SKILL.md: is a symbolic link"},
		"submodule": {func(u *upstream, body, evil string) string {
			return u.tree("100644|SKILL.md|"+body, "160000|sub|"+evil)
		}, "pdf/sub: is a submodule"},
		"case": {func(u *upstream, body, evil string) string {
			return u.tree("100644|A.md|"+evil, "100644|SKILL.md|"+body, "100644|a.md|"+evil)
		}, "differ by case only"},
		"large file": {func(u *upstream, body, evil string) string {
			return u.tree("100644|SKILL.md|"+body, "100644|big|"+u.object("blob", make([]byte, skill.MaxFile+1)))
		}, "big: larger than 4096 KiB"},
		"large skill": {func(u *upstream, body, evil string) string {
			return u.tree("100644|SKILL.md|" + u.object("blob", bytes.Repeat([]byte("x"), skill.MaxBody+64<<10+1)))
		}, "SKILL.md: larger than "},
		"many files": {func(u *upstream, body, evil string) string {
			entries := []string{"100644|SKILL.md|" + body}
			for i := range maxFiles {
				entries = append(entries, fmt.Sprintf("100644|a%d|%s", i, evil))
			}
			return u.tree(entries...)
		}, "more than 200 files"},
		"not a skill": {func(u *upstream, body, evil string) string { return u.tree("100644|SKILL.md|" + evil) }, "must begin with front matter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t)
			body, evil := u.object("blob", []byte(text("pdf", "Read."))), u.object("blob", []byte("/etc/passwd"))
			u.push(u.tree("40000|pdf|" + test.tree(u, body, evil)))
			file := declare(t, "- git: "+u.url()+"\n")
			if _, err := Sync(t.Context(), file, false); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
				t.Errorf("a sync that is refused has written %v", left)
			}
		})
	}
}

// A link in the folder cannot lead a sync elsewhere.
func TestLinkInFolder(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.commit(map[string]string{"pdf/SKILL.md": text("pdf", "Read.")})
	name := declare(t, "- git: "+u.url()+"\n")
	synced(t, name, false)
	outside := t.TempDir()
	put(t, filepath.Join(outside, "SKILL.md"), "mine")
	at := filepath.Join(filepath.Dir(name), "baked", "pdf")
	remove(t, at)
	if err := os.Symlink(outside, at); err != nil {
		t.Fatal(err)
	}
	synced(t, name, false)
	if raw, err := os.ReadFile(filepath.Join(outside, "SKILL.md")); err != nil || string(raw) != "mine" {
		t.Errorf("the file behind the link is %q, %v", raw, err)
	}
}

// Two skills of one name are an error that names both.
func TestSameNames(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.commit(map[string]string{"a/pdf/SKILL.md": text("pdf", "1"), "b/pdf/SKILL.md": text("pdf", "2")})
	if _, err := Sync(t.Context(), declare(t, "- git: "+u.url()+"\n"), false); err == nil || !strings.Contains(err.Error(), `the skill "pdf" is in a/pdf of `) {
		t.Errorf("two skills of one name: %v", err)
	}
	if _, err := Sync(t.Context(), declare(t, "- git: "+u.url()+"\n  skills: [pdf, none]\n"), false); err == nil || !strings.Contains(err.Error(), `no skill "none"`) {
		t.Errorf("an unknown skill: %v", err)
	}
	synced(t, declare(t, "- git: "+u.url()+"\n  path: b\n"), false)
}

// The names of git's own trees are checked before they are written, whatever the library that reads them permits.
func TestSafe(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"SKILL.md": true, "a/b.md": true, "..a/.b": true, "": false, "/a": false, "a/": false, "a//b": false, ".": false, "..": false,
		"a/../b": false, "a/./b": false, `a\b`: false, "c:x": false, ".git/config": false, "a/.GIT": false, "a\x00b": false} {
		if safe(name) != want {
			t.Errorf("%q: %t", name, !want)
		}
	}
}
