// Package skills has the commands for skills.
package skills

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/skill"
)

// Commands are the commands for skills.
type Commands struct {
	List     List     `cmd:"" default:"withargs" help:"List the skills in folders."`
	Validate Validate `cmd:"" help:"Check the skills in folders by the rules of agentskills.io. Exit code 1: there are mistakes."`
	Sync     Sync     `cmd:"" help:"Copy skills from git repositories and plugin marketplaces into a folder, and pin them in a lock file."`
}

// folders are the folders that a command looks into.
type folders struct {
	Folders []string `arg:"" optional:"" placeholder:"FOLDER" help:"Folders with skills. Default: .agents/skills and .claude/skills, here and in the home directory."`
}

// provider returns the skills in the folders.
func (f *folders) provider(a *cli.App) (skill.Provider, error) {
	if len(f.Folders) == 0 {
		dirs := []string{"."}
		if home := a.Env["HOME"]; home != "" {
			dirs = append(dirs, home)
		}
		return skill.Dirs(dirs...), nil
	}
	var list []skill.Provider
	for _, name := range f.Folders {
		if err := isFolder(name); err != nil {
			return nil, err
		}
		list = append(list, skill.FS(os.DirFS(name)))
	}
	return skill.Join(list...), nil
}

func isFolder(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return cli.Misuse("%v", err)
	}
	if !info.IsDir() {
		return cli.Misuse("%s is not a folder", name)
	}
	return nil
}

// List prints the skills in folders.
type List struct {
	folders `embed:""`
	JSON    bool `name:"json" help:"Print JSON."`
}

// Run prints the skills.
func (cmd *List) Run(a *cli.App) error {
	p, err := cmd.provider(a)
	if err != nil {
		return err
	}
	infos, err := p.List(context.Background())
	if err != nil {
		return err
	}
	entries := func(yield func(skill.Info, error) bool) {
		for _, info := range infos {
			if !yield(info, nil) {
				return
			}
		}
	}
	if cmd.JSON {
		return output.Array(a.Stdout, entries)
	}
	return output.Rows(a.Stdout, entries, []string{"NAME", "ALLOWED TOOLS", "DESCRIPTION"}, func(i *skill.Info) [][]string {
		return [][]string{{i.Name, strings.Join(i.AllowedTools, " "), i.Description}}
	})
}

// Validate checks the skills in folders.
type Validate struct {
	Folders []string `arg:"" placeholder:"FOLDER" help:"Folders with skills."`
}

// Run prints the mistakes.
func (cmd *Validate) Run(a *cli.App) error {
	mistakes, count := 0, 0
	for _, name := range cmd.Folders {
		if err := isFolder(name); err != nil {
			return err
		}
		problems, n := skill.Check(os.DirFS(name))
		for _, p := range problems {
			fmt.Fprintf(a.Stdout, "%s/%s\n", strings.TrimSuffix(name, "/"), p)
		}
		mistakes, count = mistakes+len(problems), count+n
	}
	switch {
	case count == 0:
		return fmt.Errorf("no skills in %s", strings.Join(cmd.Folders, ", "))
	case mistakes > 0:
		return fmt.Errorf("%s in %s", output.Count(mistakes, "mistake"), output.Count(count, "skill"))
	}
	fmt.Fprintln(a.Stdout, output.Count(count, "skill")+", no mistakes")
	return nil
}
