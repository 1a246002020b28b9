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
	// Message describes the server's current work.
	Message string `json:"message,omitempty"`
}

// maxProgress bounds the progress events of a call.
const maxProgress = 512

// Bounds of the notifications of a request: how many are passed on at once, then one a second.
const (
	burstProgress = 32
	pauseProgress = time.Second
)

// pace bounds how often the progress of a request is passed on.
type pace struct {
	n    int
	last time.Time
}

// due reports whether another notification may be passed on now, and counts it.
func (p *pace) due() bool {
	if p.n >= burstProgress && time.Since(p.last) < pauseProgress {
		return false
	}
	p.n, p.last = p.n+1, time.Now()
	return true
}

// progress publishes the progress of one request.
type progress struct {
	server string
	call   *cairn.Call

	mu    sync.Mutex
	ended bool
	done  float64
	pace  pace
}

// report publishes a notification, unless it is out of order or one too many.
func (p *progress) report(n *sdk.ProgressNotificationParams) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended || math.IsNaN(n.Progress) || math.IsInf(n.Progress, 0) || math.IsNaN(n.Total) || math.IsInf(n.Total, 0):
		return
	case p.pace.n > 0 && n.Progress <= p.done, p.pace.n == maxProgress, !p.pace.due():
		return
	}
	p.done = n.Progress
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
