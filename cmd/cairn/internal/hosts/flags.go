package hosts

import (
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

// Flags select what drives runs, if it is not this process by itself.
type Flags struct {
	Host     string `placeholder:"URL" help:"The host that drives runs: temporal://HOST:PORT/NAMESPACE?queue=NAME, dbos://HOST/DATABASE?queue=NAME or dbos:sqlite:PATH?queue=NAME. Keys and certificates for Temporal come from TEMPORAL_* variables or temporal.toml. Default: CAIRN_HOST, else this process."`
	Executor string `placeholder:"NAME" help:"This process's name on the host; unique, and the same after a restart. On DBOS the process then resumes its workflows at once. Default: a new name each time."`
}

// Address returns the host that the flags name, or else the environment; nil if neither names one.
func (f Flags) Address(env map[string]string) (*Address, error) {
	given, text := "--host", f.Host
	if text == "" {
		given, text = "CAIRN_HOST", env["CAIRN_HOST"]
	}
	if text == "" {
		if f.Executor != "" {
			return nil, cli.Misuse("--executor: requires --host")
		}
		return nil, nil
	}
	return Parse(given, text)
}
