package modeltest_test

import (
	"context"
	"iter"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/modeltest"
)

// echo is a model that repeats the user's last message.
type echo struct{}

func (echo) Info() cairn.ModelInfo { return cairn.ModelInfo{Provider: "example", Name: "echo"} }

func (echo) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return func(yield func(cairn.Chunk, error) bool) {
		if err := cairn.ContextError(ctx, "echo"); err != nil {
			yield(cairn.Chunk{}, err)
			return
		}
		var said string
		for i := range req.Messages {
			if req.Messages[i].Role == cairn.RoleUser {
				said = req.Messages[i].Text()
			}
		}
		used := cairn.Usage{InputTokens: int64(len(said)), OutputTokens: int64(len(said))}
		_ = yield(cairn.Chunk{Type: cairn.ChunkText, Text: said}, nil) &&
			yield(cairn.Chunk{Type: cairn.ChunkUsage, Usage: used}, nil) &&
			yield(cairn.Chunk{Type: cairn.ChunkFinish, FinishReason: cairn.FinishReasonEnd}, nil)
	}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	modeltest.Run(t, func(testing.TB) cairn.Model { return echo{} }, &modeltest.Options{
		Without: []modeltest.Ability{modeltest.Calls, modeltest.Stalls, modeltest.Failures},
	})
}
