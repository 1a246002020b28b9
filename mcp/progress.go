package mcp

import (
	"encoding/json"
	"math"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// ProgressEvent is the name of the custom events by which a running call reports its progress. Their data is a
// [Progress]. Each replaces the one before of the same call.
const ProgressEvent = "mcp_progress"

// Progress is how far a call of a server's tool is, according to the server.
type Progress struct {
	Server string `json:"server"`
	CallID string `json:"call_id"`
	Tool   string `json:"tool"`
	// Done is the progress so far, which grows, and Total its value at the end, 0 if that is unknown.
	Done  float64 `json:"done"`
	Total float64 `json:"total,omitempty"`
	// Message says what the server is doing.
	Message string `json:"message,omitempty"`
}

// Bounds of the progress events of a call: how many are published at once, then one a second, and how many at all.
const (
	burstProgress = 32
	maxProgress   = 512
	pauseProgress = time.Second
)

// progress publishes the progress of one request.
type progress struct {
	server string
	call   *cairn.Call

	mu    sync.Mutex
	ended bool
	done  float64
	n     int
	last  time.Time
}

// report publishes a notification, unless it is out of order or one too many.
func (p *progress) report(n *sdk.ProgressNotificationParams) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended || math.IsNaN(n.Progress) || math.IsInf(n.Progress, 0) || math.IsNaN(n.Total) || math.IsInf(n.Total, 0):
		return
	case p.n > 0 && n.Progress <= p.done, p.n == maxProgress, p.n >= burstProgress && time.Since(p.last) < pauseProgress:
		return
	}
	p.n, p.done, p.last = p.n+1, n.Progress, time.Now()
	// The call may have ended, or the event may be one too many of the call's: it is not needed for the result.
	_ = p.call.Emit(ProgressEvent, Progress{Server: p.server, CallID: p.call.ID, Tool: p.call.Tool, Done: n.Progress, Total: n.Total,
		Message: clean(n.Message, 1<<10)}, cairn.EmitID(ids.Derive("progress", p.call.ID)))
}

// end makes p report nothing any more.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// follow registers the progress of a request under a token, and returns what ends that.
func (l *link) follow(token string, p *progress) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.following == nil {
		l.following = map[string]*progress{}
	}
	l.following[token] = p
	return func() {
		p.end()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.following, token)
	}
}

// progressed passes a notification to the request that it is about.
func (l *link) progressed(n *sdk.ProgressNotificationParams) {
	if n == nil {
		return
	}
	token, err := json.Marshal(n.ProgressToken)
	if err != nil {
		return
	}
	l.mu.Lock()
	p := l.following[string(token)]
	l.mu.Unlock()
	if p != nil {
		p.report(n)
	}
}
