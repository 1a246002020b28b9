package workspace

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/store/driver"
)

// session is a session's directory as calls of this process use it.
type session struct {
	// turn is held by the call that uses the directory, or by the end of a background command.
	turn chan struct{}
	// users is the number of calls that use the session or wait for their turn. The Workspace's mutex guards it.
	users int
	// dir is open while a call or a background command uses it; else nil.
	dir Directory
	// ref is the reference of the files, as of the last call; "" if that has failed.
	ref string
	// processes are the background commands that are known, by id.
	processes map[string]*background
	started   int
	// unsaved reports whether background commands may have changed files that no snapshot has. Then the directory stays open,
	// also after their end, so that the next call finds the files.
	unsaved bool
	// owner is the tree of sessions that has started background commands.
	owner driver.BlobOwner
}

// end kills all background commands, and returns how many ran.
func (s *session) end() (ended int) {
	for b := range maps.Values(s.processes) {
		if b.running() {
			ended++
			b.process.Kill()
		}
		<-b.done
	}
	clear(s.processes)
	return ended
}

// busy reports whether background commands run, or have ended less than the given time ago.
func (s *session) busy(ago time.Duration) bool {
	for b := range maps.Values(s.processes) {
		if b.running() || time.Since(b.ended) < ago {
			return true
		}
	}
	return false
}

// background is a command that runs beside its session's calls.
type background struct {
	id      string
	command string
	process Process
	out     *output
	began   time.Time
	done    chan struct{}
	// The result, once done is closed.
	status int
	err    error
	ended  time.Time
	tooBig bool // the files exceeded the limit
}

func (b *background) running() bool {
	select {
	case <-b.done:
		return false
	default:
		return true
	}
}

// String describes it in a line.
func (b *background) String() string {
	state := fmt.Sprintf("runs since %s", time.Since(b.began).Round(time.Second))
	if !b.running() {
		state = fmt.Sprintf("ended with status %d", b.status)
		switch {
		case b.err != nil:
			state = "failed: " + b.err.Error()
		case b.tooBig:
			state = "was " + tooBigText
		case b.status < 0:
			state = "was killed"
		}
	}
	return fmt.Sprintf("%s: %s (%s)", b.id, firstLine(b.command), state)
}

func firstLine(text string) string {
	line, rest, _ := strings.Cut(text, "\n")
	if rest != "" || len(line) > 200 {
		line = strings.ToValidUTF8(line[:min(len(line), 200)], "") + "…"
	}
	return line
}
