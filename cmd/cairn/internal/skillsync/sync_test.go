package skillsync

import (
	"encoding/json"
	"maps"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// upstream is a git repository with a bare copy, from which skills are fetched.
type upstream struct {
	t         *testing.T
	work, git string // the work tree, and the bare copy
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{t, t.TempDir(), filepath.Join(t.TempDir(), "skills.git")}
	u.run("init", "--quiet", "--initial-branch=main")
	u.run("init", "--quiet", "--bare", "--initial-branch=main", u.git)
	return u
}

func (u *upstream) run(args ...string) string {
	u.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", u.work, "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgSign=false", "-c", "tag.gpgSign=false"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		u.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files, commits and pushes them, and returns the commit.
func (u *upstream) commit(files map[string]string) string {
	u.t.Helper()
	for name, text := range files {
		put(u.t, filepath.Join(u.work, name), text)
	}
	u.run("add", "--all")
	u.run("commit", "--quiet", "--allow-empty", "-m", "Change")
	u.run("push", "--quiet", "--force", "--tags", u.git, "HEAD:refs/heads/main")
	return u.run("rev-parse", "HEAD")
}

func (u *upstream) url() string { return "file://" + u.git }

// serve serves the bare copy by HTTP and returns its URL.
func (u *upstream) serve() string {
	u.t.Helper()
	dir, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		u.t.Fatal(err)
	}
	server := httptest.NewServer(&cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(dir)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(u.git), "GIT_HTTP_EXPORT_ALL=1"}})
	u.t.Cleanup(server.Close)
	return server.URL + "/" + filepath.Base(u.git)
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func text(name, body string) string {
	return "---\nname: " + name + "\ndescription: Does " + name + ".\n---\n" + body
}

// declare writes a skills.yaml and returns its name.
func declare(t *testing.T, sources string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "skills.yaml")
	put(t, name, "into: baked\nsources:\n"+sources)
	return name
}

func synced(t *testing.T, name string, update bool) *Report {
	t.Helper()
	report, err := Sync(t.Context(), name, update)
	if err != nil {
		t.Fatal(err)
	}
	if differences, err := Check(name); err != nil || len(differences) > 0 {
		t.Fatalf("after a sync: %q, %v", differences, err)
	}
	return report
}

// files returns the files of the folder by path.
func files(t *testing.T, name string) map[string]string {
	t.Helper()
	found := map[string]string{}
	root := filepath.Join(filepath.Dir(name), "baked")
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path)
		found[filepath.ToSlash(rel)] = string(raw)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return found
}

// Skills of a repository are copied and pinned: the branch moves on, the folder does not, until it is updated.
func TestSyncPinsCommits(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(*upstream) string{"file": (*upstream).url, "http": (*upstream).serve} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t)
			first := u.commit(map[string]string{"skills/pdf/SKILL.md": text("pdf", "Read."), "skills/pdf/notes/a.md": "one",
				"skills/docx/SKILL.md": text("docx", "Write."), "README.md": "no skill"})
			name := declare(t, "- git: "+address(u)+"\n  path: skills\n")
			if r := synced(t, name, false); !r.Changed || !slices.Equal(r.Skills, []string{"docx", "pdf"}) {
				t.Errorf("the report is %+v", r)
			}
			want := map[string]string{"pdf/SKILL.md": text("pdf", "Read."), "pdf/notes/a.md": "one", "docx/SKILL.md": text("docx", "Write.")}
			if got := files(t, name); !maps.Equal(got, want) {
				t.Errorf("the folder has %q", got)
			}
			u.commit(map[string]string{"skills/pdf/SKILL.md": text("pdf", "Read twice.")})
			if err := os.RemoveAll(filepath.Join(filepath.Dir(name), "baked", "pdf")); err != nil {
				t.Fatal(err)
			}
			if r := synced(t, name, false); !r.Changed || !maps.Equal(files(t, name), want) {
				t.Errorf("the lock file does not pin: %q", files(t, name))
			}
			if l, err := readLock(name); err != nil || l.Sources[0].Commit != first || l.Skills[1].Path != "skills/pdf" {
				t.Errorf("the lock file has %+v, %v", l, err)
			}
			synced(t, name, true)
			if got := files(t, name)["pdf/SKILL.md"]; got != text("pdf", "Read twice.") {
				t.Errorf("an update leaves %q", got)
			}
		})
	}
}

// A folder that agrees with the lock file needs no server.
func TestSyncOffline(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.commit(map[string]string{"pdf/SKILL.md": text("pdf", "Read.")})
	name := declare(t, "- git: "+u.url()+"\n")
	synced(t, name, false)
	if err := os.RemoveAll(u.git); err != nil {
		t.Fatal(err)
	}
	if r := synced(t, name, false); r.Changed {
		t.Errorf("the report is %+v", r)
	}
	if _, err := Sync(t.Context(), name, true); err == nil {
		t.Error("an update without the repository succeeds")
	}
	if len(files(t, name)) != 1 {
		t.Error("a sync that fails changes the folder")
	}
}

func TestRefs(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	first := u.commit(map[string]string{"pdf/SKILL.md": text("pdf", "1")})
	u.run("tag", "light")
	u.run("tag", "--annotate", "-m", "Heavy", "heavy")
	u.commit(map[string]string{"pdf/SKILL.md": text("pdf", "2")})
	for ref, want := range map[string]string{"light": "1", "heavy": "1", first: "1", "main": "2", `""`: "2"} {
		name := declare(t, "- git: "+u.url()+"\n  ref: "+ref+"\n")
		synced(t, name, false)
		if got := files(t, name)["pdf/SKILL.md"]; got != text("pdf", want) {
			t.Errorf("ref %s: %q", ref, got)
		}
	}
	if _, err := Sync(t.Context(), declare(t, "- git: "+u.url()+"\n  ref: none\n"), false); err == nil || !strings.Contains(err.Error(), `sources[0]: `+u.url()+`: ref: no tag or branch "none"`) {
		t.Errorf("an unknown ref: %v", err)
	}
}

// Check finds every way in which file, lock file and folder can differ.
func TestCheckFindsDifferences(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.commit(map[string]string{"pdf/SKILL.md": text("pdf", "Read."), "pdf/a.md": "one", "docx/SKILL.md": text("docx", "Write.")})
	for name, test := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string
	}{
		"changed":   {func(t *testing.T, dir string) { put(t, filepath.Join(dir, "baked/pdf/a.md"), "two") }, "pdf/a.md: differs"},
		"added":     {func(t *testing.T, dir string) { put(t, filepath.Join(dir, "baked/pdf/b.md"), "two") }, "pdf/b.md: is not in the lock file"},
		"removed":   {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "baked/pdf/a.md")) }, "pdf/a.md: is missing"},
		"no skill":  {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "baked/pdf")) }, "pdf/SKILL.md: is missing"},
		"no folder": {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "baked")) }, "baked: is missing"},
		"no lock":   {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "skills.lock")) }, "skills.lock: is missing"},
		"declaration": {func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, "skills.yaml"), "into: baked\nsources:\n- git: "+u.url()+"\n  skills: [pdf]\n")
		}, "sources[0]: is not in the lock file"},
		"package": {func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, "skills.yaml"), "into: baked\npackage: baked\nsources:\n- git: "+u.url()+"\n")
		}, "skills.go: is missing"},
		"link": {func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "baked/pdf/a.md"))
			if err := os.Symlink("SKILL.md", filepath.Join(dir, "baked/pdf/a.md")); err != nil {
				t.Fatal(err)
			}
		}, "pdf/a.md: is not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			name := declare(t, "- git: "+u.url()+"\n")
			synced(t, name, false)
			test.change(t, filepath.Dir(name))
			differences, err := Check(name)
			if err != nil || !strings.Contains(strings.Join(differences, "\n"), test.want) {
				t.Errorf("the differences are %q, %v, want %q", differences, err, test.want)
			}
			if l, err := readLock(name); l != nil || err != nil { // without it, the folders could be anybody's
				synced(t, name, false)
			}
		})
	}
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
}

// A program embeds the skills of a Go file.
func TestGoFile(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.commit(map[string]string{"pdf/SKILL.md": text("pdf", "Read."), "pdf/_hidden/.a": "one", "docx/SKILL.md": text("docx", "Write.")})
	name := declare(t, "- git: "+u.url()+"\n")
	dir := filepath.Dir(name)
	put(t, name, "into: baked\npackage: baked\nsources:\n- git: "+u.url()+"\n")
	synced(t, name, false)
	put(t, filepath.Join(dir, "go.mod"), "module example.com/baked\n\ngo 1.26\n")
	put(t, filepath.Join(dir, "main.go"), `package main

import (
	"fmt"
	"io/fs"

	"example.com/baked/baked"
)

func main() {
	_ = fs.WalkDir(baked.Files, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			fmt.Println(name)
		}
		return err
	})
}
`)
	cmd := exec.Command("go", "run", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if want := "docx/SKILL.md\npdf/SKILL.md\npdf/_hidden/.a\n"; err != nil || string(out) != want {
		t.Errorf("the program prints %q, %v, want %q", out, err, want)
	}
	put(t, name, "into: baked\nsources:\n- git: "+u.url()+"\n")
	synced(t, name, false)
	if _, have := files(t, name)["skills.go"]; have {
		t.Error("the Go file is left when it is not declared any more")
	}
}

// What was not written by a sync is not overwritten.
func TestSyncRefusesForeignFiles(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.commit(map[string]string{"pdf/SKILL.md": text("pdf", "Read.")})
	for file, want := range map[string]string{"baked/pdf/mine.md": "pdf: is there already", "baked/skills.go": "skills.go: was not written by cairn skills sync"} {
		name := declare(t, "")
		put(t, name, "into: baked\npackage: baked\nsources:\n- git: "+u.url()+"\n")
		put(t, filepath.Join(filepath.Dir(name), file), "mine")
		if _, err := Sync(t.Context(), name, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
		if got := files(t, name); len(got) != 1 {
			t.Errorf("%s: the folder has %q", file, got)
		}
	}
}

func TestFileIsChecked(t *testing.T) {
	t.Parallel()
	source := "sources:\n- git: https://example.com/a\n"
	for text, want := range map[string]string{
		"into: ../x\n" + source:                                        "into: must be a folder below",
		"into: /x\n" + source:                                          "into: must be a folder below",
		"into: .\n" + source:                                           "into: must be a folder below",
		source:                                                         "into: is missing",
		"into: a\n":                                                    "sources: is empty",
		"into: a\ncolour: red\n" + source:                              "colour",
		"into: a\npackage: A-b\n" + source:                             "package: ",
		"into: a\nsources:\n- ref: main\n":                             "sources[0]: must have either git or marketplace",
		"into: a\nsources:\n- git: ext::sh -c x\n":                     "sources[0].git: must ",
		"into: a\nsources:\n- git: /skills\n":                          "sources[0].git: must begin with https://",
		"into: a\nsources:\n- git: https://u:p@e.x/a\n":                "sources[0].git: must not contain a password",
		"into: a\nsources:\n- git: https://e.x/a\n  path: ../x\n":      "sources[0].path: ",
		"into: a\nsources:\n- git: https://e.x/a\n  plugins: [x]\n":    "sources[0].plugins: ",
		"into: a\nsources:\n- marketplace: https://e.x/a\n  path: x\n": "sources[0].path: ",
	} {
		name := filepath.Join(t.TempDir(), "skills.yaml")
		put(t, name, text)
		if _, err := Read(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A lock file cannot make a sync remove what is elsewhere.
func TestLockIsChecked(t *testing.T) {
	t.Parallel()
	for _, wrong := range []lockedSkill{{Name: ".."}, {Name: "a/b"}, {Name: "."}, {Name: "a", Files: map[string]string{"../x": ""}}} {
		name := declare(t, "- git: https://example.com/a\n")
		raw, err := json.Marshal(lock{Version: lockVersion, Skills: []lockedSkill{wrong}})
		if err != nil {
			t.Fatal(err)
		}
		put(t, lockName(name), string(raw))
		if _, err := Sync(t.Context(), name, false); err == nil || !strings.Contains(err.Error(), "skills.lock: ") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}
