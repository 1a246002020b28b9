package setup

import (
	"cmp"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/support"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/terminal"
	"github.com/cairn-agents/cairn/model/fallback"
)

// modelFlags select the model that answers.
type modelFlags struct {
	Model    string         `placeholder:"MODEL" default:"${model}" help:"scripted, or PROVIDER:NAME, such as anthropic:claude-sonnet-5, with the provider's variables for key and address (ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL); openai-chat is any server that speaks Chat Completions. Default: openai-chat:$$OPENAI_MODEL, or openai-chat:gpt-5-mini, if OPENAI_API_KEY or OPENAI_BASE_URL is set, else scripted."`
	Fallback []string       `sep:"none" placeholder:"MODEL" help:"Fallback model if --model is overloaded, refuses the key or times out. May be given several times; tried in that order."`
	Pace     *time.Duration `placeholder:"DURATION" help:"The scripted model's time per word. Default: 30ms on a terminal, else none."`
}

// UsualModel answers if there is a key or a server but no model name.
const UsualModel = "gpt-5-mini"

// DefaultModel returns the model that the environment asks for: a provider's if there is a key or a base URL, else
// the scripted one.
func DefaultModel(env map[string]string) string {
	if env["OPENAI_BASE_URL"] == "" && env["OPENAI_API_KEY"] == "" {
		return "scripted"
	}
	return "openai-chat:" + cmp.Or(env["OPENAI_MODEL"], UsualModel)
}

// pick returns the named model, followed by its fallbacks.
func (f modelFlags) pick(a *cli.App, name string) (cairn.Model, error) {
	first, err := f.of(a, "--model", name)
	if err != nil || len(f.Fallback) == 0 {
		return first, err
	}
	chain := []cairn.Model{first}
	for _, other := range f.Fallback {
		if other == name {
			continue
		}
		model, err := f.of(a, "--fallback", other)
		if err != nil {
			return nil, err
		}
		chain = append(chain, model)
	}
	return fallback.New(nil, chain...), nil
}

// of returns the named model. flag is the flag that named it, for errors.
func (f modelFlags) of(a *cli.App, flag, name string) (cairn.Model, error) {
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
		return nil, cli.Misuse("%s: must be scripted or PROVIDER:NAME, not %q", flag, name)
	}
	return ofProvider(name, a.Env)
}

// agent returns the support agent, with the tools of the MCP servers.
func (d *Setup) agent(model cairn.Model) *cairn.Agent {
	a := support.Agent(d.Shop, model)
	a.Toolsets = d.servers
	return a
}

// Switch makes another model answer from the next turn on.
func (d *Setup) Switch(name string) error {
	model, err := d.pick(name)
	if err != nil {
		return err
	}
	if err := d.Eng.Replace(d.agent(model)); err != nil {
		return err
	}
	d.Model = model.Info()
	return nil
}

// Model returns the named model, or the one that the environment asks for. pace is the time that the scripted model
// takes for a word.
func Model(a *cli.App, name string, pace time.Duration) (cairn.Model, error) {
	return modelFlags{Pace: &pace}.pick(a, cmp.Or(name, DefaultModel(a.Env)))
}
