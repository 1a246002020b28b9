package serve

import (
	"fmt"
	"os"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/skill"
)

// skills returns the skills of an assistant. A folder that does not exist is an error; skills in a folder may come and go
// while the server runs.
func (s *service) skills(of *config.Skills, taken []string) (cairn.Toolset, error) {
	var providers []skill.Provider
	for i, folder := range of.Folders {
		info, err := os.Stat(folder)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a folder", folder)
		}
		if err != nil {
			return nil, fmt.Errorf("skills.folders[%d]: %w", i, err)
		}
		providers = append(providers, skill.FS(os.DirFS(folder)))
	}
	name := "skills"
	for n := 2; slices.Contains(taken, name); n++ {
		name = fmt.Sprintf("skills-%d", n)
	}
	return skill.New(providers, &skill.Options{Name: name, Preload: of.Preload, Logger: s.toolsets.logger})
}
