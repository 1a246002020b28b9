package config

import (
	"context"
	"iter"

	"github.com/cairn-agents/cairn"
)

// unasked is a model that is never called, for an agent that exists only to have its tools checked.
type unasked struct{}

func (unasked) Info() cairn.ModelInfo { return cairn.ModelInfo{} }

func (unasked) Stream(context.Context, *cairn.Request) iter.Seq2[cairn.Chunk, error] { return nil }
