package serve

import (
	"fmt"
	"os"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/skill"
)

// publisher is an MCP server that publishes skills.
type publisher interface {
	Skills(user string) skill.Provider
}

// skills returns the skills of an assistant: those in its folders, then those of MCP servers. A folder that does not
// exist is an error; skills in a folder may come and go while the server runs.
func (s *service) skills(of *config.Skills, servers []cairn.Toolset, taken []string) (cairn.Toolset, error) {
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
	for _, ts := range servers {
		if p, ok := ts.(publisher); ok {
			providers = append(providers, p.Skills(""))
		}
	}
	name := "skills"
	for n := 2; slices.Contains(taken, name); n++ {
		name = fmt.Sprintf("skills-%d", n)
	}
	return skill.New(providers, &skill.Options{Name: name, Preload: of.Preload, Logger: s.toolsets.logger})
}
