package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/dialog"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/internal/ids"
)

// chat is a conversation with an agent of a server over lines of text.
type chat struct {
	*dialog.Dialog
	client  *client.Client
	session string
	agent   string // of a new session
	program string // how this program is called
	again   string // the command that resumes this chat

	feed    feed
	repeats repeats
	ended   string          // last run of the history; its remaining events are skipped
	known   int             // number of messages in the history
	running string          // the run under way
	waiting bool            // calls are pending, as far as this client knows
	own     map[string]bool // runs whose first message was typed here
	failed  error           // error of the last answer; nil if none failed

	stopping bool // Ctrl-C arrived while the answer was being begun

	last   time.Time   // time of the last event
	missed int         // consecutive looks at which the session had moved without an event
	done   chan func() // outcomes of background requests
}

func newChat(a *cli.App, c *client.Client, session, agent string, interrupts <-chan os.Signal) *chat {
	wake := make(chan struct{}, 1)
	talk := &chat{
		Dialog: dialog.New(a, interrupts), client: c, session: session, agent: agent, program: cmp.Or(a.Program, "cairn"),
		feed: feed{wake: wake}, repeats: repeats{session: session}, own: map[string]bool{}, done: make(chan func(), 4),
	}
	talk.Wake, talk.Session, talk.Agent = wake, session, cmp.Or(agent, "agent")
	return talk
}

// talk shows the state of the session and answers lines until there are no more. Without a terminal, it returns the
// error of the last answer.
func (c *chat) talk(ctx context.Context) error {
	reading, cancel := context.WithCancel(ctx)
	defer c.feed.close()
	defer cancel()
	err := c.pickUp(reading)
	for err == nil {
		if err = c.settle(reading); err != nil {
			break
		}
		line, ok, asked := c.Ask(reading, "")
		switch {
		case errors.Is(asked, dialog.ErrWoken):
			err = c.drain(reading)
			continue
		case asked == nil && ok:
			err = c.obey(reading, line)
			continue
		case asked == nil:
			asked = dialog.ErrLeft
		}
		err = asked
	}
	c.farewell()
	switch {
	case ctx.Err() != nil: // the process is terminated
		return nil
	case !errors.Is(err, dialog.ErrLeft):
		return err
	case c.Prompting:
		return nil
	}
	return c.failed
}

// farewell prints the command that continues the session, if there is one.
func (c *chat) farewell() {
	if !c.feed.opened() {
		return
	}
	switch {
	case c.running != "":
		c.Note("The answer continues on the server. To see the rest:")
	case c.waiting:
		c.Note("Nothing has to run while calls are pending. Answer them here, or with any other client of the session:")
	default:
		c.Note("To continue:")
	}
	c.Print(dialog.Indent + c.again + "\n")
}

// shown is the number of messages shown at the start.
const shown = 20

// pickUp shows the session's history and reads its events from there. If the session does not exist yet, the first
// line creates it.
func (c *chat) pickUp(ctx context.Context) error {
	snap, err := c.client.Snapshot(ctx, c.session)
	if errors.Is(err, cairn.ErrNotFound) && !errors.Is(err, cairn.ErrDeleted) && !errors.Is(err, cairn.ErrExpired) {
		return nil
	}
	if err != nil {
		return err
	}
	if c.agent != "" && c.agent != snap.Session.Agent {
		return cairn.Invalid("agent", "session %q belongs to agent %q", c.session, snap.Session.Agent)
	}
	c.Agent = snap.Session.Agent
	if n := len(snap.Messages) - shown; n > 0 {
		c.Note(fmt.Sprintf("%s before these: /history shows all.", output.Count(n, "message")))
		snap.Messages = snap.Messages[n:]
	}
	for i := range snap.Messages {
		c.Message(&snap.Messages[i])
	}
	c.stand(ctx, snap)
	switch snap.Session.Status {
	case cairn.SessionActive:
		c.Note("An answer is under way.")
	case cairn.SessionPaused:
		return c.pending(ctx)
	case cairn.SessionFailed:
		c.Note("The last answer failed. Enter /retry to try again.")
	case cairn.SessionInterrupted:
		c.Note("The last answer was interrupted. Enter /resume to resume it.")
	}
	return nil
}

// stand takes the session's position from a snapshot, and reads the events that follow it.
func (c *chat) stand(ctx context.Context, snap *client.SessionSnapshot) {
	c.ended, c.running, c.waiting = snap.Session.RunID, "", snap.Session.Status == cairn.SessionPaused
	if snap.Session.Status == cairn.SessionActive {
		c.ended, c.running = "", snap.Session.RunID
	}
	c.known, c.Seen = snap.Session.MessageCount, snap.Cursor.Sequence
	c.repeats = repeats{session: c.session}
	c.follow(ctx, snap.Cursor)
}

// follow reads the events of the session after a cursor.
func (c *chat) follow(ctx context.Context, after cairn.Cursor) {
	c.last = time.Now()
	c.feed.open(ctx, c.client, c.session, after)
}

const helpText = `Write what you want. Commands:
  /history  show the whole conversation
  /resume   resume an answer that was interrupted
  /retry    try again after an answer failed
  /quit     leave; Ctrl-D and Ctrl-C do too
Ctrl-C while an answer comes stops it; once more leaves it to the server.`

// obey answers one line. The error ends the conversation.
func (c *chat) obey(ctx context.Context, line string) error {
	switch line {
	case "/quit", "/exit":
		return dialog.ErrLeft
	case "/help":
		c.Note(helpText)
		return nil
	case "/history":
		return c.report(c.history(ctx))
	case "/retry":
		return c.begin(ctx, func(ctx context.Context) (*client.Started, error) { return c.client.Retry(ctx, c.session) })
	case "/resume":
		return c.begin(ctx, func(ctx context.Context) (*client.Started, error) { return c.client.Resume(ctx, c.session) })
	}
	if strings.HasPrefix(line, "/") {
		return c.report(cairn.Errorf(cairn.ErrInvalid, "unknown command %s; /help lists the commands", strings.Fields(line)[0]))
	}
	turn := client.Turn{SessionID: c.session, Agent: c.agent, Input: client.UserMessage{Text: line}, RunID: ids.New("turn")}
	return c.begin(ctx, func(ctx context.Context) (*client.Started, error) {
		started, err := c.client.Start(ctx, turn)
		if err == nil {
			c.own[started.RunID] = true
		}
		return started, err
	})
}

// history shows the whole conversation.
func (c *chat) history(ctx context.Context) error {
	snap, err := c.client.Snapshot(ctx, c.session)
	if err != nil {
		return err
	}
	for i := range snap.Messages {
		c.Message(&snap.Messages[i])
	}
	return nil
}

// report shows an error that does not end the conversation, if there is one.
func (c *chat) report(err error) error {
	c.failed = err
	if err != nil {
		c.Fail(err)
	}
	return nil
}

// begin begins or resumes a run.
func (c *chat) begin(ctx context.Context, how func(context.Context) (*client.Started, error)) error {
	started, err := c.starting(ctx, how)
	if err != nil {
		c.stopping = false
	}
	switch {
	case errors.Is(err, dialog.ErrLeft):
		return err
	case errors.Is(err, cairn.ErrAlreadyRunning), errors.Is(err, cairn.ErrWaiting):
		c.failed = err
		c.Note("Rejected: " + output.OneLine(cairn.AsError(err).Message, 0))
		c.waiting = true // settle looks
		return nil
	case err != nil:
		return c.report(err)
	}
	c.failed = nil
	if started.Turn > 0 {
		c.running = started.RunID
	} else {
		c.stopping = false
		c.Note("Message queued.")
	}
	if !c.feed.opened() {
		c.follow(ctx, cairn.Cursor{})
	}
	return nil
}

// pause is the delay before a request that the server did not answer is attempted again.
const pause = 250 * time.Millisecond

// patience is how long a request is attempted.
const patience = time.Minute

// patiently makes a request and repeats it while the server restarts. Ctrl-C ends it with ErrLeft.
func patiently[T any](ctx context.Context, c *chat, request func(context.Context) (T, error)) (T, error) {
	return unless(ctx, c.Interrupts, request)
}

// starting makes a request that begins an answer. The first Ctrl-C stops the answer once it has begun; the second
// ends starting with ErrLeft.
func (c *chat) starting(ctx context.Context, request func(context.Context) (*client.Started, error)) (*client.Started, error) {
	twice, ended := make(chan os.Signal), make(chan struct{})
	var heeding sync.WaitGroup
	defer heeding.Wait()
	defer close(ended)
	heeding.Go(func() {
		for {
			select {
			case s := <-c.Interrupts:
				if !c.stopping {
					c.stopping = true
					continue
				}
				select {
				case twice <- s:
				case <-ended:
				}
				return
			case <-ended:
				return
			}
		}
	})
	return unless(ctx, twice, request)
}

// unless makes a request until it is answered or a signal arrives.
func unless[T any](ctx context.Context, signals <-chan os.Signal, request func(context.Context) (T, error)) (T, error) {
	trying, cancel := context.WithCancel(ctx)
	defer cancel()
	var value T
	var err error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		value, err = persist(trying, request)
	}()
	left := false
	select {
	case <-answered:
	case <-signals:
		left = true
		cancel()
		<-answered
	}
	if left || ctx.Err() != nil {
		err = dialog.ErrLeft
	}
	return value, err
}

// persist makes a request until it is answered.
func persist[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	for began := time.Now(); ; {
		value, err := request(ctx)
		if !passing(err) || time.Since(began) > patience {
			return value, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return value, err
		}
	}
}
