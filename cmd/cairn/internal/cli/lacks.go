package cli

import (
	"runtime/debug"
	"slices"

	"github.com/cairn-agents/cairn"
)

// Lacks returns the error for features that this program was built without. It names the command that builds them.
func Lacks(features string) error {
	info, _ := debug.ReadBuildInfo()
	return cairn.Errorf(cairn.ErrUnavailable, "this program was built without %s; use %s", features, whole(info))
}

// whole returns how to get the program with all features: from a clone, or in the version that was installed.
func whole(info *debug.BuildInfo) string {
	inClone := info == nil || info.Main.Version == "" || info.Main.Version == "(devel)" ||
		slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "vcs.revision" })
	if inClone {
		return "go run ./cmd/cairn or make build"
	}
	return "go install " + info.Path + "@" + info.Main.Version
}
