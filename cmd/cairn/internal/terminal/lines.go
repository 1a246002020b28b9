package terminal

import (
	"bufio"
	"errors"
	"io"

	"github.com/cairn-agents/cairn"
)

// maxLine bounds one line of input, in bytes.
const maxLine = 1 << 20

// Lines delivers the lines of a reader one at a time, so that a wait for a line can end early.
type Lines struct {
	Next chan string // closed at the end
	Err  error       // why it ended early; valid once Next is closed
}

// ReadLines reads ahead by one line. A read of a terminal cannot be cancelled: its goroutine ends with the input, or
// with the process.
func ReadLines(r io.Reader) *Lines {
	l := &Lines{Next: make(chan string)}
	go func() {
		defer close(l.Next)
		scanner := bufio.NewScanner(r)
		scanner.Buffer(nil, maxLine)
		for scanner.Scan() {
			l.Next <- scanner.Text()
		}
		l.Err = scanner.Err()
		if errors.Is(l.Err, bufio.ErrTooLong) {
			l.Err = cairn.Invalid("input", "line is too long (max %d bytes)", maxLine)
		}
	}()
	return l
}
