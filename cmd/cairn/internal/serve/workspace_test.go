package serve

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/cairn-agents/cairn/workspace"
)

func TestWorkspacesOfAssistants(t *testing.T) {
	t.Parallel()
	s := &toolsets{logger: slog.New(slog.DiscardHandler)}
	st := memstore.New(nil)
	dir := filepath.Join(t.TempDir(), "files")
	made, err := s.workspace(&config.Workspace{Provider: "dir", Path: dir, Tools: []string{"read", "edit"}}, st)
	if err != nil {
		t.Fatal(err)
	}
	if names := made.(*workspace.Workspace).ReservedTools(); strings.Join(names, " ") != "workspace_read workspace_edit" {
		t.Errorf("the tools are %q", names)
	}
	again, err := s.workspace(&config.Workspace{Provider: "dir", Path: dir, Tools: []string{"read", "edit"}}, st)
	if err != nil || again != made {
		t.Errorf("an equal declaration has a workspace of its own: %v", err)
	}
	for want, w := range map[string]*config.Workspace{
		"workspace: tools: unknown tool":        {Provider: "memory", Tools: []string{"fly"}},
		`workspace: tools: "shell" runs`:        {Provider: "dir", Path: dir, Tools: []string{"shell"}},
		"workspace: manifest.repositories: url": {Provider: "memory", Repositories: []config.Repository{{Path: "r"}}},
	} {
		if _, err := s.workspace(w, st); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want one that begins with %q", err, want)
		}
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}
