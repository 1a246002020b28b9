package mcp

import (
	"context"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// endpoint is the common base of all that speaks to a server: how it is reached, with which options, and until
// when.
type endpoint struct {
	name string
	opts Options
	dial dialer

	ctx    context.Context // cancelled by Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	mu     sync.Mutex
	closed bool
}

// dialer opens transports to a server.
type dialer interface {
	transport(ctx context.Context, user string) (sdk.Transport, error)
}

// start runs do in a goroutine that Close waits for. The caller holds the mutex.
func (e *endpoint) start(do func()) { e.work.Go(do) }
