package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// pipes runs a command and connects with it over its standard input and output.
type pipes struct {
	cmd *exec.Cmd
	// skipped gets each of the first lines of standard output that are not messages.
	skipped func(line string)
}

// Connect implements sdk.Transport.
func (p *pipes) Connect(ctx context.Context) (sdk.Connection, error) {
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	t := sdk.IOTransport{Reader: io.NopCloser(&messages{lines: bufio.NewReaderSize(out, 64<<10), skipped: p.skipped}),
		Writer: &input{WriteCloser: in, cmd: p.cmd}, MaxLineLength: maxMessage}
	return t.Connect(ctx)
}

// input is a command's standard input. Closing it ends the command.
type input struct {
	io.WriteCloser
	cmd *exec.Cmd
}

// patience is how long a command has to end after each request to do so: its input is closed, then SIGTERM.
const patience = 2 * time.Second

// Close ends the command as the protocol demands: it closes the input, and sends a signal only to a command that does not end then.
func (i *input) Close() error {
	err := i.WriteCloser.Close()
	ended := make(chan error, 1)
	go func() { ended <- i.cmd.Wait() }() // ends at the latest when the command is killed
	for _, ask := range []func() error{
		func() error { return nil },
		func() error { return i.cmd.Process.Signal(syscall.SIGTERM) },
		i.cmd.Process.Kill,
	} {
		if ask() != nil { // such as on a system without the signal
			continue
		}
		select {
		case status := <-ended:
			return errors.Join(err, status)
		case <-time.After(patience):
		}
	}
	return errors.Join(err, fmt.Errorf("process %d does not exit", i.cmd.Process.Pid))
}

// Bounds of what a server writes to its standard output besides messages: lines that are logged, and bytes in between two
// messages.
const (
	maxNoiseLines = 20
	maxNoise      = 1 << 20
)

// messages reads the lines of a standard output that are messages, and skips others. The protocol permits no others, but
// programs that start servers print banners.
type messages struct {
	lines   *bufio.Reader
	skipped func(line string)
	noted   int // lines that were skipped
	noise   int // bytes since the last message
	rest    []byte
	err     error
}

func (m *messages) Read(p []byte) (int, error) {
	for len(m.rest) == 0 && m.err == nil {
		m.next()
	}
	if len(m.rest) == 0 {
		return 0, m.err
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// next reads a line.
func (m *messages) next() {
	var line []byte
	for {
		piece, err := m.lines.ReadSlice('\n')
		line = append(line, piece...)
		if errors.Is(err, bufio.ErrBufferFull) && len(line) <= maxMessage {
			continue
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			err = errLarge
		}
		m.err = err
		break
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\uFEFF")))
	if len(text) == 0 {
		return
	}
	if isMessage(text) {
		m.noise, m.rest = 0, append(text, '\n')
		return
	}
	if m.noted++; m.noted <= maxNoiseLines {
		m.skipped(string(text))
	}
	if m.noise += len(line); m.noise > maxNoise && m.err == nil {
		m.err = fmt.Errorf("the server's standard output has more than %d KiB that are not messages", maxNoise>>10)
	}
}

// isMessage reports whether a line is a message, or a batch of an older revision. Lines of structured logs are JSON, too.
func isMessage(line []byte) bool {
	type message struct {
		Version string `json:"jsonrpc"`
	}
	var one message
	var batch []message
	switch line[0] {
	case '{':
		return json.Unmarshal(line, &one) == nil && one.Version != ""
	case '[':
		return json.Unmarshal(line, &batch) == nil && len(batch) > 0 && batch[0].Version != ""
	}
	return false
}
