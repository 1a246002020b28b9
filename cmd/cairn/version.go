package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

type versionCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// built describes the binary.
type built struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// String returns the version on one line.
func (v built) String() string { return fmt.Sprintf("cairn %s %s %s", v.Version, v.Go, v.Platform) }

// build returns what this binary was built from.
func build() built {
	v := built{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = cmp.Or(info.Main.Version, v.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Revision = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	return v
}

// Run prints the version, the revision and the platform of the binary.
func (cmd *versionCmd) Run(a *cli.App) error {
	if cmd.JSON {
		return json.NewEncoder(a.Stdout).Encode(build())
	}
	_, err := fmt.Fprintln(a.Stdout, build())
	return err
}
