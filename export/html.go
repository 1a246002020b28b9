package export

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed" // of the style and the templates
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

var (
	//go:embed page.css
	style string
	//go:embed page.tmpl
	pageText string

	page = template.Must(template.New("page").Funcs(template.FuncMap{"stamp": stamp, "show": show}).Parse(pageText))
)

// policy is the content security policy of a page: no scripts, no requests, only its own style and images.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; img-src data:; base-uri 'none'; form-action 'none'"
}()

// HTML writes one session as a page of HTML, with the sessions below it. The page needs no other file: it has no scripts,
// makes no requests, and its policy forbids both. All texts are escaped, and characters that hide or reorder others are
// shown as their codes. Arguments and results of calls, reasoning and hidden messages are folded; images are in the page.
//
// It returns the errors of [Session]. The page is written while the session is read, so after an error it may be incomplete.
func HTML(ctx context.Context, eng *engine.Engine, w io.Writer, id string, opts *Options) error {
	row, err := eng.Session(ctx, id)
	if err != nil {
		return err
	}
	h := &document{exporter: newExporter(ctx, eng, opts), w: bufio.NewWriterSize(w, 32<<10)}
	if err := h.session(row, 0); err != nil {
		return err
	}
	return h.w.Flush()
}

// document writes a page.
type document struct {
	*exporter
	w *bufio.Writer
}

func (h *document) execute(name string, data any) error {
	if err := page.ExecuteTemplate(h.w, name, data); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// shownSession is the beginning of a session on the page.
type shownSession struct {
	session
	Heading, Instructions, Facts, Policy string
	Style                                template.CSS
	Scores                               []score
	Depth                                int
}

// session writes a session: the page itself at depth 0, or a part of it.
func (h *document) session(row *cairn.Session, depth int) error {
	s, instructions, err := h.head(row)
	if err != nil {
		return err
	}
	scores, err := h.scores(row)
	if err != nil {
		return err
	}
	r := h.redacting()
	out := shownSession{session: s, Heading: cmp.Or(s.Title, r.text(row.Opening), s.ID), Instructions: instructions, Scores: scores, Depth: depth, Policy: policy,
		Style: template.CSS(style)}
	if r.err != nil {
		return r.err
	}
	out.Facts = fmt.Sprintf("model calls: %d, tokens: %d in, %d out, tool calls: %d", s.Usage.ModelCalls, s.Usage.InputTokens, s.Usage.OutputTokens, s.Usage.ToolCalls)
	if s.Cost != nil {
		out.Facts += fmt.Sprintf(", $%.4f", *s.Cost)
	}
	if depth == 0 {
		if err := h.execute("begin", &out); err != nil {
			return err
		}
	}
	if err := h.execute("session", &out); err != nil {
		return err
	}
	if err := h.each(row, h.message); err != nil {
		return err
	}
	if err := h.runs(row, func(r run) error {
		if r.Error == nil {
			return nil
		}
		return h.execute("failure", &r)
	}); err != nil {
		return err
	}
	children, err := h.children(row)
	if err != nil {
		return err
	}
	for i := range children {
		if err := h.session(&children[i], depth+1); err != nil {
			return err
		}
	}
	if err := h.execute("ended", nil); err != nil || depth > 0 {
		return err
	}
	return h.execute("end", nil)
}

// shownMessage is a message on the page.
type shownMessage struct {
	message
	Who, Class string
	Parts      []shownPart
}

// shownPart is a text or an image.
type shownPart struct {
	Text  string
	Image template.URL
	Alt   string
}

// message writes a message of a transcript.
func (h *document) message(index int, m *cairn.Message) error {
	list, err := h.exported(index, m)
	if err != nil {
		return err
	}
	for _, m := range list {
		out := shownMessage{message: m, Who: whose(&m), Class: m.Role}
		for _, p := range m.parts {
			out.Parts = append(out.Parts, shownOf(p))
		}
		for i := range out.ToolCalls {
			out.ToolCalls[i].Function.Arguments = indented(out.ToolCalls[i].Function.Arguments)
		}
		if m.Role == string(cairn.RoleTool) && len(out.Parts) == 1 {
			out.Parts[0].Text = indented(out.Parts[0].Text)
		}
		if err := h.execute("message", &out); err != nil {
			return err
		}
	}
	return nil
}

// whose returns the heading of a message.
func whose(m *message) string {
	switch {
	case m.SummaryFrom > 0:
		return "Summary of earlier messages"
	case m.Role == string(cairn.RoleTool) && m.IsError:
		return "Error of " + m.Name
	case m.Role == string(cairn.RoleTool):
		return "Result of " + m.Name
	case m.Hidden:
		return "Context"
	case m.Role == string(cairn.RoleUser):
		return "User"
	}
	return "Assistant"
}

// images are the types of files that a page shows: none of them can have code.
var images = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/avif": true}

// shownOf returns a part of a message for the page.
func shownOf(p part) shownPart {
	f := p.file
	switch {
	case f == nil:
		return shownPart{Text: p.text}
	case f.data != nil && images[f.MediaType]:
		return shownPart{Image: template.URL("data:" + f.MediaType + ";base64," + base64.StdEncoding.EncodeToString(f.data)), Alt: f.Name}
	case f.url != "":
		return shownPart{Text: fmt.Sprintf("[%s, %s: %s]", cmp.Or(f.Name, "a file"), f.MediaType, f.url)}
	}
	return shownPart{Text: f.note()}
}

// indented returns a JSON object or list with line breaks, and any other text as it is.
func indented(text string) string {
	var b bytes.Buffer
	if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") || json.Indent(&b, []byte(text), "", "  ") != nil {
		return text
	}
	return b.String()
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// show replaces characters that a reader does not see, or that change the order of others, by their codes.
func show(text string) string {
	if strings.IndexFunc(text, hides) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if hides(r) {
			fmt.Fprintf(&b, "⟦U+%04X⟧", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hides reports whether a character is replaced by show. Joiners, which emoji and several scripts need, are not.
func hides(r rune) bool {
	switch r {
	case '\n', '\t', '\u200c', '\u200d':
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co)
}
