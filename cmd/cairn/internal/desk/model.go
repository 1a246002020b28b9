package desk

import (
	"cmp"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/support"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/terminal"
)

// modelFlags say which model answers.
type modelFlags struct {
	Model string         `placeholder:"MODEL" default:"${model}" help:"scripted, or openai:NAME for any server that speaks Chat Completions (OPENAI_BASE_URL, OPENAI_API_KEY). Default: openai:$$OPENAI_MODEL, or openai:gpt-5-mini, if one of those two is set, else scripted."`
	Pace  *time.Duration `placeholder:"DURATION" help:"Time the scripted model takes for a word. Default: 30ms on a terminal, else none."`
}

// UsualModel answers where there is a key or a server but no name of a model.
const UsualModel = "gpt-5-mini"

// DefaultModel returns the model that the environment asks for: a provider's, if there is a key or a base URL.
func DefaultModel(env map[string]string) string {
	if env["OPENAI_BASE_URL"] == "" && env["OPENAI_API_KEY"] == "" {
		return "scripted"
	}
	return "openai:" + cmp.Or(env["OPENAI_MODEL"], UsualModel)
}

// pick returns the model that the flags name.
func (f modelFlags) pick(a *cli.App) (cairn.Model, error) {
	provider, name, _ := strings.Cut(f.Model, ":")
	switch {
	case f.Pace != nil && *f.Pace < 0:
		return nil, cli.Misuse("--pace: %s is negative", *f.Pace)
	case f.Model == "scripted":
		pace := time.Duration(0)
		if f.Pace != nil {
			pace = *f.Pace
		} else if terminal.Is(a.Stdout) {
			pace = 30 * time.Millisecond
		}
		return support.Script(pace), nil
	case provider == "openai" && name != "":
		return openaiModel(name, a.Env["OPENAI_BASE_URL"], a.Env["OPENAI_API_KEY"])
	}
	return nil, cli.Misuse("--model: %q is neither scripted nor openai:NAME", f.Model)
}
