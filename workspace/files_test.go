package workspace_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/workspace"
)

func TestFilesOfASession(t *testing.T) {
	t.Parallel()
	for name, make := range providers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, newStore(), make(t), nil)
			got := h.do("s",
				write("src/a.go", "package a\n\nfunc A() int { return 1 }\n"),
				write("b.txt", "one\ntwo\nthree"),
				read("src/a.go"),
				`read {"path":"b.txt","line":2,"lines":1}`,
				`edit {"path":"src/a.go","old":"return 1","new":"return 2"}`,
				`edit {"path":"src/a.go","old":"nothing","new":"x"}`,
				`search {"query":"RETURN \\d","ignore_case":true,"pattern":"*.go"}`,
				`list {}`,
				`list {"pattern":"**/*.go"}`,
				`remove {"path":"b.txt"}`,
				`read {"path":"b.txt"}`,
				`read {"path":"../etc/passwd"}`,
			)
			for i, parts := range [][]string{
				{"Wrote src/a.go"}, {"Wrote b.txt, 13 bytes"}, {"package a\n\nfunc A() int { return 1 }\n"}, {"two\n[lines 2 to 2; the file is longer]"},
				{"Replaced 1"}, {"is not in"}, {"src/a.go:3: func A() int { return 2 }"}, {"b.txt (13 bytes)\nsrc/"}, {"src/a.go (37 bytes)"},
				{"Removed b.txt"}, {"b.txt"}, {"not a path within the workspace"},
			} {
				expect(t, "call", got[i], parts...)
			}
			// A process on another machine has the files, too.
			other := newHouse(t, h.st, make(t), nil)
			got = other.do("s", read("src/a.go"), `list {"pattern":"*"}`)
			expect(t, "other process", got[0], "return 2")
			if got[1] != "src/a.go (37 bytes)" {
				t.Errorf("the other process has %q", got[1])
			}
			// Another session has none of them.
			if got := h.do("t", `list {}`); got[0] != "(nothing)" {
				t.Errorf("another session has %q", got[0])
			}
		})
	}
}

// A published file is an artifact of the session, as it was when it was published.
func TestPublish(t *testing.T) {
	t.Parallel()
	h := newHouse(t, newStore(), workspace.Memory(), nil)
	got := h.do("s", write("out/report.csv", "a,b\n"), `publish {"path":"out/report.csv"}`, write("out/report.csv", "changed"), `publish {"path":"out/report.csv","name":"second.bin","media_type":"x/y"}`,
		`publish {"path":"nothing"}`, `publish {"path":"out/report.csv","name":"../x"}`)
	expect(t, "publish", got[1], "report.csv")
	expect(t, "missing file", got[4], "does not exist")
	expect(t, "bad name", got[5], "artifact.name")
	page, err := h.eng.Artifacts(t.Context(), "s", store.PageQuery{})
	if err != nil || len(page.Items) != 2 {
		t.Fatal(page, err)
	}
	for i, want := range []string{"a,b\n", "changed"} {
		a := page.Items[i]
		_, r, err := h.eng.OpenArtifact(t.Context(), "s", a.Message, a.File)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(r); err != nil || string(data) != want {
			t.Errorf("artifact %d is %q: %v", i, data, err)
		}
	}
	if a, b := page.Items[0], page.Items[1]; a.MediaType != "text/csv; charset=utf-8" || b.MediaType != "x/y" || b.Name != "second.bin" {
		t.Errorf("artifacts %+v, %+v", a, b)
	}
}

func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	local, err := workspace.Dir(base(t))
	if err != nil {
		t.Fatal(err)
	}
	wrapped := wrap(t, nil)
	for want, make := range map[string]func() error{
		"store: ":          func() error { return made(workspace.New(struct{ store.Store }{newStore()}, local, nil)) },
		"provider: is nil": func() error { return made(workspace.New(newStore(), nil, nil)) },
		"tools: unknown tool \"fly\"": func() error {
			return made(workspace.New(newStore(), local, &workspace.Options{Tools: []string{"fly"}}))
		},
		"tools: \"shell\" runs commands": func() error {
			return made(workspace.New(newStore(), local, &workspace.Options{Tools: []string{"shell"}}))
		},
		"tools: duplicate": func() error {
			return made(workspace.New(newStore(), local, &workspace.Options{Tools: []string{"read", "read"}}))
		},
		"interpreters: the provider": func() error {
			return made(workspace.New(newStore(), local, &workspace.Options{Interpreters: []string{"sh"}}))
		},
		"interpreters: unknown": func() error {
			return made(workspace.New(newStore(), wrapped, &workspace.Options{Interpreters: []string{"cobol"}}))
		},
		"interpreters: commands do not find": func() error {
			return made(workspace.New(newStore(), wrapped, &workspace.Options{Interpreters: []string{"ruby"}}))
		},
		"limits.output: ": func() error {
			return made(workspace.New(newStore(), local, &workspace.Options{Limits: workspace.Limits{Output: 10}}))
		},
		"limits.time: is negative": func() error {
			return made(workspace.New(newStore(), local, &workspace.Options{Limits: workspace.Limits{Time: -1}}))
		},
		"approve: ": func() error {
			return made(workspace.New(newStore(), wrapped, &workspace.Options{Approve: []string{"("}}))
		},
		"manifest.files: ": func() error { return withManifest(local, workspace.Manifest{Files: map[string]string{"../x": ""}}) },
		"manifest.repositories: url": func() error {
			return withManifest(local, workspace.Manifest{Repositories: []workspace.Repository{{URL: "--upload-pack=x", Path: "r"}}})
		},
		"manifest: mounts": func() error { return withManifest(local, workspace.Manifest{Environment: []string{"HOME"}}) },
		"manifest.mounts: \"x\"": func() error {
			return withManifest(wrapped, workspace.Manifest{Mounts: []workspace.Mount{{Source: "x"}}})
		},
		"manifest.mounts: target": func() error {
			return withManifest(wrapped, workspace.Manifest{Mounts: []workspace.Mount{{Source: "/usr", Target: "/workspace/usr"}}})
		},
		"manifest.environment: ": func() error { return withManifest(wrapped, workspace.Manifest{Environment: []string{"A=B"}}) },
		"tool_options: unknown tool": func() error {
			return made(workspace.New(newStore(), local, &workspace.Options{ToolOptions: map[string][]cairn.ToolOption{"fly": nil}}))
		},
		"tool_options: toolset \"workspace\"": func() error {
			return made(workspace.New(newStore(), wrapped, &workspace.Options{Approve: []string{"x"}, ToolOptions: map[string][]cairn.ToolOption{"shell": {cairn.RequireApproval()}}}))
		},
		"path: is empty": func() error { return made(workspace.Dir("")) },
		"user: ":         func() error { return made(workspace.Bubblewrap("x", &workspace.BubblewrapOptions{User: -1})) },
		"bounds: ": func() error {
			return made(workspace.Bubblewrap("x", &workspace.BubblewrapOptions{Bounds: workspace.Bounds{Files: -1}}))
		},
		"program: ": func() error {
			return made(workspace.Bubblewrap("x", &workspace.BubblewrapOptions{Program: "no-such-program"}))
		},
		"bubblewrap: ": func() error {
			return made(workspace.Bubblewrap(base(t), &workspace.BubblewrapOptions{Program: "true"}))
		},
	} {
		if err := make(); !errors.Is(err, cairn.ErrInvalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want one that begins with %q", err, want)
		}
	}
}

// A link of one repository does not lead the clone of another one out of the workspace.
func TestCloneDoesNotFollowLinks(t *testing.T) {
	t.Parallel()
	outside, repository := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(repository, "link")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "a"}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", repository}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	for _, below := range []string{"a/link/b", "a/link"} {
		manifest := workspace.Manifest{Repositories: []workspace.Repository{{URL: repository, Path: "a"}, {URL: repository, Path: below}}}
		h := newHouse(t, newStore(), workspace.Memory(), &workspace.Options{Manifest: manifest})
		run, err := h.eng.Execute(t.Context(), "s", "bot", cairn.Text("list {}"))
		if err == nil {
			_, err = run.Wait(t.Context())
		}
		if list, _ := os.ReadDir(outside); err == nil || len(list) > 0 {
			t.Fatalf("%s: the clone has written %v (%v)", below, list, err)
		}
	}
}

func made[T any](_ T, err error) error { return err }

func withManifest(p workspace.Provider, m workspace.Manifest) error {
	return made(workspace.New(newStore(), p, &workspace.Options{Manifest: m}))
}
