package open_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/open"
)

func ExampleModel() {
	env := map[string]string{"ANTHROPIC_API_KEY": "sk-1"}
	model, err := open.Model("anthropic:claude-sonnet-5", &open.Options{Getenv: func(name string) string { return env[name] }})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(model.Info().ID())
	_, err = open.Model("claude-sonnet-5", nil)
	fmt.Println(err != nil)
	// Output:
	// anthropic:claude-sonnet-5
	// true
}

func TestEveryProvider(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "")
	t.Setenv("OPENAI_API_KEY", "")
	t.Setenv("GEMINI_API_KEY", "")
	t.Setenv("GOOGLE_API_KEY", "")
	for _, provider := range open.Providers() {
		model, err := open.Model(provider+":some:model", nil)
		if err != nil || model.Info().ID() != provider+":some:model" {
			t.Errorf("%s: %v, %v", provider, model, err)
			continue
		}
		if err := model.(cairn.Validator).Validate(); err == nil || cairn.AsError(err).Code != cairn.ErrAuth {
			t.Errorf("%s without a key: %v", provider, err)
		}
		model, err = open.Model(provider+":m", &open.Options{APIKey: "k"})
		if err != nil || model.(cairn.Validator).Validate() != nil {
			t.Errorf("%s with a key: %v", provider, err)
		}
	}
}

func TestNamesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "anthropic", "anthropic:", ":m", "Anthropic:m", "telepathy:m"} {
		_, err := open.Model(id, nil)
		if !errors.Is(err, cairn.ErrInvalid) || !strings.Contains(err.Error(), "anthropic, ") {
			t.Errorf("%q: %v", id, err)
		}
	}
}
