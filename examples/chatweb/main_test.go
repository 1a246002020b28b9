package main

import (
	"context"
	"encoding/json"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
)

// gates, if set, makes this program the example. Its long answers to users then stop halfway until the directory
// that gates names contains a file with the session's name.
const gates = "CHATWEB_GATES"

func TestMain(m *testing.M) {
	if dir := os.Getenv(gates); dir != "" {
		agent.Model = gated{model, dir}
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type gated struct {
	cairn.Model
	dir string
}

func (g gated) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return func(yield func(cairn.Chunk, error) bool) {
		words := 0
		long := req.Messages[len(req.Messages)-1].Role == cairn.RoleUser // not a reply to a tool's result
		for c, err := range g.Model.Stream(ctx, req) {
			if words++; words == 20 && long {
				_ = testclock.Poll(ctx, func() bool { return g.open(req.SessionID) })
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

func (g gated) open(session string) bool {
	_, err := os.Stat(filepath.Join(g.dir, session))
	return err == nil
}

func TestWithoutItsPageItSaysHowToBuildIt(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-page", "none")
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), gates+"=.")
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "npm run build") {
		t.Errorf("%v: %s", err, out)
	}
	if list, err := os.ReadDir(cmd.Dir); err != nil || len(list) > 0 {
		t.Errorf("it leaves %v, %v", list, err)
	}
}

// The page works in a browser.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(gates, dir)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	page, err := filepath.Abs("web")
	if err != nil {
		t.Fatal(err)
	}
	testenv.NodeCases(t, "testdata/browse.mjs", page, program, dir, testenv.Chromium(t))
}

// The page is tested with the versions that it declares.
func TestVersions(t *testing.T) {
	named := func(file string) (list struct{ Dependencies, DevDependencies map[string]string }) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	page, tested := named("web/package.json"), named("../../internal/testenv/clients/package.json")
	for _, list := range []map[string]string{page.Dependencies, page.DevDependencies} {
		for name, version := range list {
			if tested.Dependencies[name] != version {
				t.Errorf("%s %s is tested as %s", name, version, tested.Dependencies[name])
			}
		}
	}
}
