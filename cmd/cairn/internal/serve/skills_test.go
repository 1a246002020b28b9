package serve

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/skill"
)

// storefront stands for an MCP server that publishes a skill.
type storefront struct{ cairn.Toolset }

func (storefront) Skills(string) skill.Provider {
	return skill.Join(prefixed{skill.Define(skill.Skill{Info: skill.Info{Name: "refunds", Description: "Refunds."}, Body: "Look it up."}, nil)})
}

// prefixed gives a skill the name of its server.
type prefixed struct{ skill.Provider }

func (n prefixed) List(ctx context.Context) ([]skill.Info, error) {
	list, err := n.Provider.List(ctx)
	list[0].Name = "shop:" + list[0].Name
	return list, err
}

func (n prefixed) Load(ctx context.Context, name string) (*skill.Skill, error) {
	name, ok := strings.CutPrefix(name, "shop:")
	if !ok {
		return nil, fs.ErrNotExist
	}
	return n.Provider.Load(ctx, name)
}

func TestDeclaredSkills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pdf"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "pdf", "SKILL.md")
	if err := os.WriteFile(file, []byte("---\nname: pdf\ndescription: Reads PDF files.\n---\nRead all pages."), 0o644); err != nil {
		t.Fatal(err)
	}
	s := &service{toolsets: &toolsets{logger: slog.New(slog.DiscardHandler)}}
	ts, err := s.skills(&config.Skills{Folders: []string{dir}, Preload: []string{"pdf", "shop:refunds"}}, []cairn.Toolset{storefront{}}, []string{"skills", "skills-2"})
	if err != nil || ts.Name() != "skills-3" {
		t.Fatalf("%v, %v", ts, err)
	}
	offer, err := ts.Offer(t.Context(), &cairn.Step{Agent: "bot"}, nil)
	if err != nil || !strings.Contains(offer.Note, "- pdf: Reads PDF files.\n- shop:refunds: Refunds.") || !strings.Contains(offer.Note, "Read all pages.") || !strings.HasSuffix(offer.Note, "Look it up.") {
		t.Errorf("the offer is %+v, %v", offer, err)
	}
	for _, folder := range []string{filepath.Join(dir, "missing"), file} {
		if _, err := s.skills(&config.Skills{Folders: []string{dir, folder}}, nil, nil); err == nil || !strings.HasPrefix(err.Error(), "skills.folders[1]: ") {
			t.Errorf("%s: %v", folder, err)
		}
	}
}
