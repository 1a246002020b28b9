package serve

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
)

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
	ts, err := s.skills(&config.Skills{Folders: []string{dir}, Preload: []string{"pdf"}}, []string{"skills", "skills-2"})
	if err != nil || ts.Name() != "skills-3" {
		t.Fatalf("%v, %v", ts, err)
	}
	offer, err := ts.Offer(t.Context(), &cairn.Step{Agent: "bot"}, nil)
	if err != nil || !strings.Contains(offer.Note, "- pdf: Reads PDF files.") || !strings.HasSuffix(offer.Note, "Read all pages.") {
		t.Errorf("the offer is %+v, %v", offer, err)
	}
	for _, folder := range []string{filepath.Join(dir, "missing"), file} {
		if _, err := s.skills(&config.Skills{Folders: []string{dir, folder}}, nil); err == nil || !strings.HasPrefix(err.Error(), "skills.folders[1]: ") {
			t.Errorf("%s: %v", folder, err)
		}
	}
}
