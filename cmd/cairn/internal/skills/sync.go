package skills

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/skillsync"
)

// Sync copies skills from repositories into a folder.
type Sync struct {
	File    string        `arg:"" optional:"" default:"skills.yaml" help:"The file that declares the sources and the folder. Beside it is the lock file, such as skills.lock."`
	Check   bool          `xor:"mode" help:"Change nothing and use no network: exit code 1 if folder, file and lock file differ."`
	Update  bool          `xor:"mode" help:"Take the commits that tags and branches name now, instead of those of the lock file."`
	Timeout time.Duration `default:"5m" help:"How long servers may take."`
}

// Run copies the skills, or compares them.
func (cmd *Sync) Run(a *cli.App) error {
	if cmd.Check {
		return cmd.check(a)
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmd.Timeout)
	defer cancel()
	report, err := skillsync.Sync(ctx, cmd.File, cmd.Update)
	if err != nil {
		return misuse(err)
	}
	for _, note := range report.Notes {
		fmt.Fprintln(a.Stderr, note)
	}
	what := "unchanged"
	if report.Changed {
		what = "written"
	}
	fmt.Fprintf(a.Stdout, "%s %s: %s\n", output.Count(len(report.Skills), "skill"), what, strings.Join(report.Skills, ", "))
	return nil
}

func (cmd *Sync) check(a *cli.App) error {
	differences, err := skillsync.Check(cmd.File)
	if err != nil {
		return misuse(err)
	}
	for _, line := range differences {
		fmt.Fprintln(a.Stdout, line)
	}
	if len(differences) > 0 {
		return fmt.Errorf("%s; run cairn skills sync", output.Count(len(differences), "difference"))
	}
	fmt.Fprintln(a.Stdout, "no differences")
	return nil
}

// misuse returns the error for a file that does not exist as one of the command line.
func misuse(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Misuse("%v", err)
	}
	return err
}
