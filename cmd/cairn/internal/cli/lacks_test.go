package cli

import (
	"runtime/debug"
	"testing"
)

func TestLacksNamesTheCommandThatBuildsAll(t *testing.T) {
	t.Parallel()
	const path, inClone = "github.com/cairn-agents/cairn/cmd/cairn", "go run ./cmd/cairn or make build"
	revision := []debug.BuildSetting{{Key: "-tags", Value: "notemporal"}, {Key: "vcs.revision", Value: "3992d4b7"}}
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"installed":           {&debug.BuildInfo{Path: path, Main: debug.Module{Version: "v0.1.0"}, Settings: revision[:1]}, "go install " + path + "@v0.1.0"},
		"built in a clone":    {&debug.BuildInfo{Path: path, Main: debug.Module{Version: "v0.1.0"}, Settings: revision}, inClone},
		"without a version":   {&debug.BuildInfo{Path: path, Main: debug.Module{Version: "(devel)"}}, inClone},
		"without information": {nil, inClone},
	} {
		if got := whole(c.info); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
