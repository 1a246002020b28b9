package cairn_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

func ExampleCompaction() {
	large, small := scripted.New(), scripted.New() // models of a provider
	agent := &cairn.Agent{
		Name:  "support",
		Model: large,
		Compaction: &cairn.Compaction{ // all fields are optional
			Model:   small, // makes the summaries; the run's model by default, and if this one fails
			Trigger: 80,    // percent of the window at which the history is summarised
			Keep:    20,    // percent of the window for the latest messages, which are not summarised
			// ByProvider: true has OpenAI compact the same messages too, for its own model
		},
	}
	fmt.Println(agent.Validate())
	// Output: <nil>
}

func ExampleHooks() {
	agent := &cairn.Agent{Name: "support", Model: scripted.New()}
	agent.Hooks = &cairn.Hooks{
		BeforeTool: func(_ context.Context, call *cairn.Call) error {
			if call.Tool == "refund" && call.UserID == "" {
				return errors.New("sign in first") // becomes the call's result, which the model reads
			}
			return nil
		},
	}
	fmt.Println(agent.Validate())
	// Output: <nil>
}

func ExampleSettings() {
	temperature := 0.2
	agent := &cairn.Agent{Name: "support", Model: scripted.New(), Settings: cairn.Settings{
		Temperature: &temperature,
		Options: map[string]any{
			"generationConfig": map[string]any{"seed": 7}, // Gemini: added to the temperature
		},
	}}
	fmt.Println(agent.Validate())
	// Output: <nil>
}

type refundInput struct {
	Order int `json:"order"`
}

func refundOrder(_ context.Context, _ *cairn.Call, in refundInput) (string, error) {
	return fmt.Sprintf("order %d refunded", in.Order), nil
}

func ExampleProviderFields() {
	tool := cairn.Func("refund", "Refund an order.", refundOrder,
		cairn.ProviderFields("anthropic", map[string]any{"defer_loading": true}),
		cairn.ProviderFields("openai-chat", map[string]any{"function": map[string]any{"strict": true}}))
	fmt.Println(tool.Name())
	// Output: refund
}

func ExampleDeferred_keywords() {
	refund := cairn.Func("refund_order", "Refund an order.", refundOrder, cairn.Deferred("money back"))
	fmt.Println(refund.Name())
	// Output: refund_order
}

type command struct {
	Input string `json:"input"`
}

func perform(_ context.Context, _ *cairn.Call, in command) (string, error) { return in.Input, nil }

func ExampleProviderFields_types() {
	tools := []cairn.Tool{
		cairn.Func("query", "Run SQL.", perform, cairn.ProviderFields("openai", map[string]any{"type": "custom"})), // or a format with a grammar
		cairn.Func("sh", "Run commands.", perform, cairn.ProviderFields("openai", map[string]any{"type": "shell"})),
		cairn.Func("patch", "Change a file.", perform, cairn.ProviderFields("openai", map[string]any{"type": "apply_patch"})),
	}
	fmt.Println(len(tools))
	// Output: 3
}
