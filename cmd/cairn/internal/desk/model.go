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
	Model string         `placeholder:"MODEL" default:"${model}" help:"scripted, or PROVIDER:NAME, such as anthropic:claude-sonnet-5, with the provider's variables for key and address (ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL); openai-chat is any server that speaks Chat Completions. Default: openai-chat:$$OPENAI_MODEL, or openai-chat:gpt-5-mini, if OPENAI_API_KEY or OPENAI_BASE_URL is set, else scripted."`
	Pace  *time.Duration `placeholder:"DURATION" help:"Time the scripted model takes for a word. Default: 30ms on a terminal, else none."`
}

// UsualModel answers where there is a key or a server but no name of a model.
const UsualModel = "gpt-5-mini"

// DefaultModel returns the model that the environment asks for: a provider's, if there is a key or a base URL.
func DefaultModel(env map[string]string) string {
	if env["OPENAI_BASE_URL"] == "" && env["OPENAI_API_KEY"] == "" {
		return "scripted"
	}
	return "openai-chat:" + cmp.Or(env["OPENAI_MODEL"], UsualModel)
}

// pick returns the model of a name.
func (f modelFlags) pick(a *cli.App, name string) (cairn.Model, error) {
	if f.Pace != nil && *f.Pace < 0 {
		return nil, cli.Misuse("--pace: %s is negative", *f.Pace)
	}
	if name == "scripted" {
		pace := time.Duration(0)
		if f.Pace != nil {
			pace = *f.Pace
		} else if terminal.Is(a.Stdout) {
			pace = 30 * time.Millisecond
		}
		return support.Script(pace), nil
	}
	if _, of, _ := strings.Cut(name, ":"); of == "" {
		return nil, cli.Misuse("--model: %q is neither scripted nor PROVIDER:NAME", name)
	}
	return ofProvider(name, a.Env)
}

// Switch has another model answer from the next turn on.
func (d *Desk) Switch(name string) error {
	model, err := d.pick(name)
	if err != nil {
		return err
	}
	if err := d.Eng.Replace(support.Agent(d.Shop, model)); err != nil {
		return err
	}
	d.Model = model.Info()
	return nil
}

// Model returns the model of a name, or the one that the environment asks for, with the time that a scripted one takes for a
// word.
func Model(a *cli.App, name string, pace time.Duration) (cairn.Model, error) {
	return modelFlags{Pace: &pace}.pick(a, cmp.Or(name, DefaultModel(a.Env)))
}
