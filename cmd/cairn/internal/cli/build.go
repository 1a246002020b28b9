//go:build !demo

package cli

// buildFlags are the flags that this program was built with.
const buildFlags = ""
