//go:build !demo

package cli

// buildFlags are those that this program was built with.
const buildFlags = ""
