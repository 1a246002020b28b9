package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// recorder plays scenes and notes when what is on the screen.
type recorder struct {
	screen  *screen
	program string
	dir     string        // where the commands run
	key     time.Duration // between two keys
	real    bool          // whether pauses and keys take their time; otherwise there are none
	extra   []string      // further arguments of the demo

	now time.Duration // of the recording
}

// longest bounds the time in which nothing changes, such as while a process starts.
const longest = 700 * time.Millisecond

func (r *recorder) wait(d time.Duration) {
	if r.real {
		r.now += d
	}
}

// typed shows a text as it is typed at the shell.
func (r *recorder) typed(text, style string) {
	for _, c := range text {
		r.wait(r.key)
		r.screen.write(r.now, style+string(c)+plain)
	}
}

// play plays scenes at one shell.
func (r *recorder) play(ctx context.Context, scenes []scene) error {
	for i, s := range scenes {
		r.screen.write(r.now, prompt)
		r.wait(500 * time.Millisecond)
		if s.args == nil {
			r.typed(s.shown, comment)
			r.screen.write(r.now, "\r\n")
		} else {
			r.typed(s.shown, "")
			r.wait(200 * time.Millisecond)
			r.screen.write(r.now, "\r\n")
			if err := r.perform(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s.shown, err)
			}
		}
		if i < len(scenes)-1 {
			r.wait(s.pause)
		}
	}
	return nil
}

// chunk is what a process has written at once.
type chunk struct {
	text string
	at   time.Time
}

// perform runs a command at a terminal of its own.
func (r *recorder) perform(ctx context.Context, s scene) error {
	controller, terminal, err := openTerminal(columns, rows)
	if err != nil {
		return err
	}
	defer controller.Close()
	args := s.args
	if args[0] == "demo" {
		args = append(args[:1:1], r.extra...)
	}
	cmd := exec.CommandContext(ctx, r.program, args...)
	cmd.Dir, cmd.Env = r.dir, []string{"TERM=xterm-256color", "HOME=" + r.dir, "PATH=" + os.Getenv("PATH")}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = atTerminal()
	err = cmd.Start()
	terminal.Close()
	if err != nil {
		return err
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	chunks := make(chan chunk, 1000)
	go func() {
		defer close(chunks)
		buf := make([]byte, 4096)
		for {
			n, err := controller.Read(buf)
			if n > 0 {
				chunks <- chunk{string(buf[:n]), time.Now()}
			}
			if err != nil { // EIO once the process has ended
				return
			}
		}
	}()
	at := &sitting{recorder: r, chunks: chunks, last: time.Now(), keys: controller, from: r.screen.transcript.Len()}
	for _, st := range s.steps {
		if err := at.do(st); err != nil {
			return err
		}
		if st.kill {
			r.screen.write(r.now, "\r\n"+killed+"\r\n")
		}
		if st.kill || st.end {
			return cmd.Process.Kill()
		}
	}
	return at.rest()
}

// sitting is a process at its terminal.
type sitting struct {
	*recorder
	chunks <-chan chunk
	last   time.Time // of the chunk before
	keys   *os.File
	from   int // where in the transcript the next text is awaited: one chunk may have the texts of two steps
}

// show puts a chunk on the screen. Reads may cut a character in two; the screen joins them.
func (s *sitting) show(c chunk) {
	s.wait(min(c.at.Sub(s.last), longest).Round(10 * time.Millisecond))
	s.last = c.at
	s.screen.write(s.now, c.text)
}

func (s *sitting) do(st step) error {
	for {
		rest := s.screen.transcript.String()[s.from:]
		if i := strings.Index(rest, st.await); i >= 0 {
			s.from += i + len(st.await)
			break
		}
		c, ok := <-s.chunks
		if !ok {
			return fmt.Errorf("the process ended before it showed %q: %s", st.await, rest)
		}
		s.show(c)
	}
	s.wait(st.pause)
	for _, key := range st.keys {
		if _, err := s.keys.WriteString(string(key)); err != nil {
			return err
		}
		c, ok := <-s.chunks // the echo
		if !ok {
			return errors.New("the process ended while keys were typed")
		}
		s.wait(s.key)
		s.screen.write(s.now, c.text)
		s.last = c.at
	}
	return nil
}

// rest shows what a process writes until it ends.
func (s *sitting) rest() error {
	for c := range s.chunks {
		s.show(c)
	}
	return nil
}
