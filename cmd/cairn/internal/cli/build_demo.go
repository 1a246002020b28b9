//go:build demo

package cli

// buildFlags are the flags that this program was built with. The demo build needs neither hosts nor servers and
// compiles faster without them.
const buildFlags = "-tags demo "
