package crosshost_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/skill"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
	"github.com/cairn-agents/cairn/workspace"
)

// codesVar has the base of the files of a process that codes.
const codesVar = "CAIRN_TEST_CODES"

// sandboxUser is the user that commands of workspaces run as if the tests are root.
const sandboxUser = 65534

// The files of the test, below its base.
func codingStore(base string) string         { return filepath.Join(base, "cairn.db") }
func remoteRepository(base string) string    { return filepath.Join(base, "remote.git") }
func workingTree(base string) string         { return filepath.Join(base, "tree") }
func workspaces(base, machine string) string { return filepath.Join(base, "workspaces-"+machine) }
func goCache(base string) string             { return filepath.Join(base, "go-build") }
func started(base, machine, n string) bool {
	list, _ := filepath.Glob(filepath.Join(workspaces(base, machine), "*", "*", "files", "repo", "started-"+n))
	return len(list) > 0
}

const brokenCode = "package calc\n\n// Double returns twice n.\nfunc Double(n int) int { return n + 2 }\n"

const codeTest = "package calc\n\nimport \"testing\"\n\nfunc TestDouble(t *testing.T) {\n\tif got := Double(3); got != 6 {\n\t\tt.Fatalf(\"Double(3) = %d\", got)\n\t}\n}\n"

// coder returns an agent that mends a failing test: it loads a skill, runs the tests, edits, runs them again, commits, and
// pushes once a person has approved that.
func coder(st driver.Store, base, machine string) (*cairn.Agent, error) {
	provider, err := workspace.Bubblewrap(workspaces(base, machine), &workspace.BubblewrapOptions{User: sandboxUser})
	if err != nil {
		return nil, err
	}
	mounts := []workspace.Mount{{Source: remoteRepository(base), Writable: true}, {Source: goCache(base), Writable: true}}
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	root := strings.TrimSpace(string(out))
	if !strings.HasPrefix(root, "/usr/") {
		mounts = append(mounts, workspace.Mount{Source: root})
	}
	ws, err := workspace.New(st, provider, &workspace.Options{
		Tools:   []string{"read", "edit", "shell"},
		Approve: []string{`\bgit\s+push\b`},
		Manifest: workspace.Manifest{FS: os.DirFS(workingTree(base)), Mounts: mounts, Variables: map[string]string{
			"PATH": root + "/bin:/usr/bin:/bin", "GOCACHE": goCache(base), "GOFLAGS": "-vet=off", "GOTOOLCHAIN": "local", "GOPROXY": "off",
			"GIT_AUTHOR_NAME": "coder", "GIT_AUTHOR_EMAIL": "coder@example.com", "GIT_COMMITTER_NAME": "coder", "GIT_COMMITTER_EMAIL": "coder@example.com"}},
	})
	if err != nil {
		return nil, err
	}
	skills, err := skill.New([]skill.Provider{skill.FS(fstest.MapFS{"mend/SKILL.md": {Data: []byte("---\nname: mend\ndescription: How to mend failing tests.\n---\nRun go test, mend the code, run it again, commit and push.\n")}})}, nil)
	if err != nil {
		return nil, err
	}
	shell := func(id, command string) scripted.Step {
		return scripted.Call("workspace_shell", map[string]any{"command": "cd repo && " + command, "seconds": 600}).ID(id)
	}
	a := agent("coder", []scripted.Step{
		scripted.Call(skill.LoadTool, map[string]string{"name": "mend"}).ID("c1"),
		shell("c2", "touch started-1 && go test ./..."),
		scripted.Call("workspace_read", map[string]string{"path": "repo/calc.go"}).ID("c3"),
		scripted.Call("workspace_edit", map[string]string{"path": "repo/calc.go", "old": "n + 2", "new": "2 * n"}).ID("c4"),
		shell("c5", "echo half >> calc_test.go; touch started-2; sleep 3; git checkout calc_test.go && go test ./..."),
		shell("c6", "rm -f started-*; git commit --quiet -a -m 'Double doubles' && git status --short && git log --format=%s"),
		shell("c7", "git push --quiet origin HEAD && git rev-parse HEAD && git status --short --branch"),
		scripted.Text("Mended and pushed."),
	})
	a.Toolsets, a.Workspace = []cairn.Toolset{skills}, ws
	return a, nil
}

// codes is a process that drives the coder until it is killed.
func codes(base string) error {
	st, err := sqlitestore.Open(codingStore(base), nil)
	if err != nil {
		return err
	}
	a, err := coder(st, base, "1")
	if err != nil {
		return err
	}
	eng, err := engine.New(st, []*cairn.Agent{a}, &engine.Options{LeaseTTL: 2 * time.Second, WorkInterval: 100 * time.Millisecond})
	if err != nil {
		return err
	}
	if _, err := eng.Execute(context.Background(), "s", "coder", cairn.Text("Mend the test."), engine.WithRunID("first")); err != nil && !isTaken(err) {
		return err
	}
	return eng.Work(context.Background())
}

// prepareCode makes the repository with the failing test, and a remote one.
func prepareCode(t *testing.T) (base string) {
	t.Helper()
	base, err := os.MkdirTemp("", "coding-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	tree := filepath.Join(workingTree(base), "repo")
	for _, dir := range []string{tree, goCache(base)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"go.mod": "module example.com/calc\n\ngo 1.26\n", "calc.go": brokenCode, "calc_test.go": codeTest} {
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", remoteRepository(base)},
		{"-C", tree, "init", "--quiet", "--initial-branch=main"},
		{"-C", tree, "add", "."},
		{"-C", tree, "-c", "user.name=owner", "-c", "user.email=owner@example.com", "commit", "--quiet", "-m", "Begin"},
		{"-C", tree, "remote", "add", "origin", remoteRepository(base)},
	} {
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	if os.Geteuid() == 0 {
		if err := os.Chmod(base, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{remoteRepository(base), goCache(base)} {
			err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				return os.Lchown(name, sandboxUser, sandboxUser)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return base
}

// An agent with a workspace and a skill mends a failing test. Its process is killed twice while a command runs, and another
// one continues. The push waits for an approval, and runs on another host, with another directory.
func TestCoderOutlivesItsProcesses(t *testing.T) {
	t.Parallel()
	base := prepareCode(t)
	st, err := sqlitestore.Open(codingStore(base), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	a, err := coder(st, base, "2")
	if err != nil {
		t.Fatal(err)
	}
	start := onDBOS(t)
	reader, err := engine.New(st, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close(context.Background()) })

	// The first run compiles the standard library, which takes minutes on a busy machine.
	await := func(t *testing.T, what string, done func() bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := testclock.Poll(ctx, done); err != nil {
			t.Fatalf("waited for %s: %v", what, err)
		}
	}
	kill := startLife(t, codesVar+"="+base)
	await(t, "the first run of the tests", func() bool { return started(base, "1", "1") })
	kill()
	kill = startLife(t, codesVar+"="+base)
	await(t, "the second run of the tests", func() bool { return started(base, "1", "2") })
	kill()
	kill = startLife(t, codesVar+"="+base)
	ctx := t.Context()
	await(t, "the approval", func() bool {
		row, err := reader.Session(ctx, "s")
		return err == nil && row.Status == cairn.SessionPaused
	})
	kill()

	eng := start(t, st, []*cairn.Agent{a}, &engine.Options{LeaseTTL: 2 * time.Second, WorkInterval: 100 * time.Millisecond})
	answer(t, st)
	run, err := eng.Resume(ctx, "s")
	if err != nil {
		t.Fatal(err)
	}
	res, err := run.Wait(ctx)
	if err != nil || res.Text != "Mended and pushed." {
		t.Fatal(res, err)
	}
	checkCode(t, eng, base)
}

// checkCode checks what the model has read, and the remote repository.
func checkCode(t *testing.T, eng *engine.Engine, base string) {
	t.Helper()
	var results []string
	for m, err := range eng.AllMessages(t.Context(), "s") {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range m.ToolResults() {
			results = append(results, string(r.Output))
		}
	}
	want := []string{"Skill mend", "Double(3) = 5", "n + 2", "Replaced 1", "ok", `"Double doubles\nBegin"`, "restored in a new sandbox"}
	if len(results) != len(want) {
		t.Fatalf("the results are %q", results)
	}
	for i, part := range want {
		if !strings.Contains(results[i], part) {
			t.Errorf("result %d, %q, does not contain %q", i, results[i], part)
		}
	}
	show := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "--git-dir", remoteRepository(base), "show", "main:calc.go")
	show.Env = append(os.Environ(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	out, err := show.CombinedOutput()
	if want := strings.Replace(brokenCode, "n + 2", "2 * n", 1); err != nil || string(out) != want {
		t.Errorf("the remote repository has %q: %v", out, err)
	}
}
