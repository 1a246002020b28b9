package cli

import (
	"path/filepath"
	"regexp"
	"strings"
)

var plainWord = regexp.MustCompile(`^[\w./:@%+-]+$`)

// Quoted returns an argument in shell syntax.
func Quoted(arg string) string {
	if plainWord.MatchString(arg) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// Called returns how to call a program that was started as name. A program started by go run lies in the build
// cache.
func Called(name string) string {
	if strings.Contains(filepath.ToSlash(name), "/go-build") {
		return "go run " + buildFlags + "./cmd/cairn"
	}
	return Quoted(name)
}
