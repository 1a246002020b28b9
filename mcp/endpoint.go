package mcp

import (
	"context"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// endpoint is what all that speaks to a server stands on: how it is reached, with which options, and until when.
type endpoint struct {
	name string
	opts Options
	dial dialer

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	mu     sync.Mutex
	closed bool
}

// dialer makes transports to a server.
type dialer interface {
	transport(ctx context.Context, user string) (sdk.Transport, error)
}

// start does something that Close waits for. The mutex is held.
func (e *endpoint) start(do func()) { e.work.Go(do) }
