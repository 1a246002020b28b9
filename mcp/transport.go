package mcp

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// commandDialer starts a command for each connection.
type commandDialer struct {
	name    string
	command []string
	opts    *Options
}

// inherited are the variables of this process that a command gets.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
	"SYSTEMROOT", "SYSTEMDRIVE", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PATHEXT", "COMSPEC"}

func (d *commandDialer) transport(context.Context, string) (sdk.Transport, error) {
	cmd := exec.Command(d.command[0], d.command[1:]...)
	cmd.Dir = d.opts.Dir
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Env = append(cmd.Env, d.opts.Env...)
	cmd.Stderr = &logWriter{d: d}
	cmd.WaitDelay = time.Second // a child of the command may keep its standard error open
	return marking{&pipes{cmd: cmd, skipped: func(line string) {
		d.opts.Logger.Warn("MCP server wrote a line to standard output that is not a message", "server", d.name, "line", clean(line, 4<<10))
	}}}, nil
}

// logWriter logs the lines of a command's standard error.
type logWriter struct {
	d    *commandDialer
	rest []byte
}

func (w *logWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		n, line, err := bufio.ScanLines(w.rest, len(w.rest) > 4<<10)
		if n == 0 || err != nil {
			return len(p), err
		}
		w.d.opts.Logger.Info("MCP server stderr", "server", w.d.name, "line", clean(string(line), 4<<10))
		w.rest = w.rest[n:]
	}
}

// httpDialer connects over streamable HTTP.
type httpDialer struct {
	address string
	opts    *Options
}

func (d *httpDialer) transport(_ context.Context, user string) (sdk.Transport, error) {
	client := http.Client{}
	if d.opts.HTTPClient != nil {
		client = *d.opts.HTTPClient
	}
	inner := client.Transport
	if inner == nil {
		inner = http.DefaultTransport
	}
	client.Transport = &bounded{inner, d.opts.Header}
	// Requests, and the user's token with them, are not for other hosts that the server redirects to.
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme || len(via) > 5 {
			return fmt.Errorf("the server redirects to %s", req.URL.Host)
		}
		return nil
	}
	t := &sdk.StreamableClientTransport{Endpoint: d.address, HTTPClient: &client, MaxRetries: 2, MaxEventSize: maxMessage}
	if d.opts.Auth != nil {
		var h auth.OAuthHandler
		h, err := d.opts.Auth.handler(user)
		if err != nil {
			return nil, err
		}
		if u, ok := h.(*userHandler); ok {
			client.Transport = &renewing{client.Transport, u}
		}
		noted := &noting{OAuthHandler: h}
		t.OAuthHandler = noted
		return authorised{t, noted}, nil
	}
	return t, nil
}

// authorised is a transport whose requests are authorised.
type authorised struct {
	sdk.Transport
	*noting
}

// noting notes why a request is not authorised. A connection begins with a request that may fail for other reasons, such
// as the server's age, and the SDK then tries another one, whose error it returns.
type noting struct {
	auth.OAuthHandler
	mu  sync.Mutex
	err error
}

func (n *noting) Authorize(ctx context.Context, req *http.Request, resp *http.Response) error {
	err := n.OAuthHandler.Authorize(ctx, req, resp)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
	return err
}

// unauthorised returns why the last request that the server did not accept was not authorised; nil if it was.
func (n *noting) unauthorised() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}
