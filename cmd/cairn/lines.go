package main

import (
	"bufio"
	"errors"
	"io"

	"github.com/cairn-agents/cairn"
)

// maxLine bounds one line of input, in bytes.
const maxLine = 1 << 20

// lines hands out the lines of a reader one at a time, so that waiting for one can be given up.
type lines struct {
	next chan string // closed at the end
	err  error       // why it ended early; to be read after next is closed
}

// readLines reads ahead by one line. A read of a terminal cannot be called off: its goroutine ends with the input, or
// with the process.
func readLines(r io.Reader) *lines {
	l := &lines{next: make(chan string)}
	go func() {
		defer close(l.next)
		scanner := bufio.NewScanner(r)
		scanner.Buffer(nil, maxLine)
		for scanner.Scan() {
			l.next <- scanner.Text()
		}
		l.err = scanner.Err()
		if errors.Is(l.err, bufio.ErrTooLong) {
			l.err = cairn.Invalid("input", "a line has more than %d bytes", maxLine)
		}
	}()
	return l
}
