package workspace

import (
	"fmt"
	"strings"
	"sync"
)

// output collects what a command writes: the first and the last bytes, each up to half of the limit.
type output struct {
	limit int

	mu         sync.Mutex
	head, tail []byte
	total      int64
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.total += int64(len(p))
	rest := p
	if room := o.limit/2 - len(o.head); room > 0 {
		n := min(room, len(rest))
		o.head = append(o.head, rest[:n]...)
		rest = rest[n:]
	}
	if keep := o.limit / 2; len(rest) >= keep {
		o.tail = append(o.tail[:0], rest[len(rest)-keep:]...)
	} else {
		o.tail = append(o.tail, rest...)
		if len(o.tail) > 2*keep { // so that few writes move bytes
			o.tail = append(o.tail[:0], o.tail[len(o.tail)-keep:]...)
		}
	}
	return len(p), nil
}

// text returns what the model reads.
func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	tail := o.tail[max(0, len(o.tail)-o.limit/2):]
	left := o.total - int64(len(o.head)+len(tail))
	if left == 0 {
		return readableText(append(o.head[:len(o.head):len(o.head)], tail...))
	}
	return readableText(o.head) + fmt.Sprintf("\n[… %d bytes left out …]\n", left) + readableText(tail)
}

// last returns about the last n bytes, and how many there were in all.
func (o *output) last(n int) (string, int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.tail
	if int64(len(o.head)+len(o.tail)) >= o.total {
		all = append(o.head[:len(o.head):len(o.head)], o.tail...)
	}
	return readableText(all[max(0, len(all)-n):]), o.total
}

// readableText returns output as text. Of a line that was written over by carriage returns, as progress bars are, the last
// state remains.
func readableText(b []byte) string {
	text := strings.ReplaceAll(strings.ToValidUTF8(string(b), "\ufffd"), "\x00", "\ufffd")
	if !strings.Contains(text, "\r") {
		return text
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		lines[i] = line[strings.LastIndexByte(line, '\r')+1:]
	}
	return strings.Join(lines, "\n")
}
