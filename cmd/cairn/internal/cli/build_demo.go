//go:build demo

package cli

// buildFlags are those that this program was built with: the demo's, which needs neither hosts nor servers, and is
// built sooner without them.
const buildFlags = "-tags demo "

// Lacks is the format of the error of what is not in this program.
const Lacks = "this program was built without %s; go run ./cmd/cairn, or make build, has them"
