package workspace

import (
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
)

// maxPath is the maximum length of a path in bytes, and maxDepth of its elements.
const (
	maxPath  = 4096
	maxDepth = 64
	maxName  = 255
)

// cleanPath returns a path of a tool's arguments as in [Entry.Path]; "." for the root. The path may begin with the
// absolute path that commands see.
func cleanPath(root, name string) (string, error) {
	if root != "" && strings.HasPrefix(name, "/") {
		rest, ok := strings.CutPrefix(path.Clean(name)+"/", root+"/")
		if !ok {
			return "", cairn.Invalid("path", "%q is outside the workspace, which is %s", name, root)
		}
		name = "./" + rest
	}
	switch {
	case strings.HasPrefix(name, "/"):
		return "", cairn.Invalid("path", "%q must be relative", name)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return "", cairn.Invalid("path", "%q is not valid text", name)
	}
	clean := path.Clean(name)
	if clean == "." {
		return clean, nil
	}
	return clean, checkPath(clean)
}

// checkPath returns an ErrInvalid error unless a path is as in [Entry.Path].
func checkPath(name string) error {
	switch {
	case !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0):
		return cairn.Invalid("path", "%q is not a path within the workspace", name)
	case len(name) > maxPath:
		return cairn.Invalid("path", "longer than %d bytes", maxPath)
	case strings.Count(name, "/") >= maxDepth:
		return cairn.Invalid("path", "has more than %d elements", maxDepth)
	}
	for element := range strings.SplitSeq(name, "/") {
		if len(element) > maxName {
			return cairn.Invalid("path", "has an element longer than %d bytes", maxName)
		}
	}
	return nil
}

// linkStays reports whether a link at a path points into the workspace, if its directories are not links themselves.
func linkStays(root, at, target string) bool {
	switch {
	case target == "" || len(target) > maxPath || !utf8.ValidString(target) || strings.ContainsRune(target, 0):
		return false
	case path.IsAbs(target):
		return root != "" && strings.HasPrefix(path.Clean(target)+"/", root+"/")
	}
	to := path.Join(path.Dir(at), target)
	return to != ".." && !strings.HasPrefix(to, "../")
}
