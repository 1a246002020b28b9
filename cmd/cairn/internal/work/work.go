// Package work holds the commands about workers: run one, and list all of them.
package work

// Commands are the commands about workers.
type Commands struct {
	Run    workCmd       `cmd:"" default:"withargs" help:"Drive the demo's sessions that are due or whose process died, until interrupted. \"run\" can be left out."`
	Status workStatusCmd `cmd:"" help:"List workers, leases, and due sessions that no worker serves."`
}
