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

// Run prints the version, the revision and the platform of the binary.
func (cmd *versionCmd) Run(a *cli.App) error {
	v := struct {
		Version  string `json:"version"`
		Revision string `json:"revision,omitempty"`
		Modified bool   `json:"modified,omitempty"`
		Go       string `json:"go"`
		Platform string `json:"platform"`
	}{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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
	if cmd.JSON {
		return json.NewEncoder(a.Stdout).Encode(v)
	}
	_, err := fmt.Fprintf(a.Stdout, "cairn %s %s %s\n", v.Version, v.Go, v.Platform)
	return err
}
