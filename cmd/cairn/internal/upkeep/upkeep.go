// Package upkeep holds the commands that maintain stores: migrate, copy, sweep, erase.
package upkeep

// Store holds the commands about whole stores.
type Store struct {
	Copy copyCmd `cmd:"" help:"Copy sessions with all their data to another store, and compare both."`
}

// Removal holds the commands that end sessions for good.
type Removal struct {
	Sweep sweepCmd `cmd:"" help:"Remove expired sessions, purge those that were removed long enough ago, and trim event logs."`
	Erase eraseCmd `cmd:"" help:"Erase a session now and permanently."`
}
