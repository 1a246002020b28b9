// Package upkeep holds the commands that maintain stores: migrate, copy, sweep, erase.
package upkeep

// Store holds the commands about whole stores.
type Store struct {
	Copy copyCmd `cmd:"" help:"Copy sessions to another store, with everything they own, and compare both."`
}

// Removal holds the commands that end sessions for good.
type Removal struct {
	Sweep sweepCmd `cmd:"" help:"Remove sessions that have expired, and for good those that were removed long enough ago. Trim event logs."`
	Erase eraseCmd `cmd:"" help:"Remove a session for good, now."`
}
