//go:build demo

package cli

// buildFlags are the flags that this program was built with. The demo build needs neither hosts nor servers and
// compiles faster without them.
const buildFlags = "-tags demo "

// Lacks is the format of the error for a feature that this program was built without.
const Lacks = "this program was built without %s; go run ./cmd/cairn, or make build, has them"
