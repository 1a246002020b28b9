package server

import (
	"errors"
	"io"
	"net/http"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/export"
	"github.com/cairn-agents/cairn/server/internal/sse"
)

type exportIn struct {
	ID string `path:"id"`
	// Format is jsonl, a line of JSON, which is the default; or html, a page.
	Format string `query:"format" schema:"enum=jsonl|html"`
	// Whole adds what the session's user does not see: hidden messages, the model's instructions and tools, and the texts of
	// private errors. It is for operators and administrators.
	Whole bool `query:"whole"`
}

// exportSession responds with an export of a session.
func exportSession(c *request, in *exportIn) error {
	row, err := c.open(in.ID, ActionRead)
	if err != nil {
		return err
	}
	if in.Whole && !c.principal.Is(RoleOperator) && !c.principal.Is(RoleAdmin) {
		return cairn.Invalid("whole", "may only be set by operators and administrators")
	}
	leave, err := c.h.users.stream(c.principal.limitKey()) // it takes as long as a stream
	if err != nil {
		return err
	}
	defer leave()
	tenant := c.tenant()
	opts := &export.Options{Public: !in.Whole, Name: func(text string) string { return bareText(tenant, text) }}
	if tenant == "" {
		opts.Name = nil
	}
	w := &exportWriter{c: c, w: c.bounded()}
	switch in.Format {
	case "", "jsonl":
		w.mediaType, w.name = "application/jsonl; charset=utf-8", "session.jsonl"
		err = export.Session(c.ctx, c.h.eng, w, row.ID, opts)
	case "html":
		w.mediaType, w.name = "text/html; charset=utf-8", "session.html"
		err = export.HTML(c.ctx, c.h.eng, w, row.ID, opts)
	default:
		return cairn.Invalid("format", "unknown value %q: must be jsonl or html", in.Format)
	}
	if err != nil && w.begun { // so that the client does not take a part for the whole
		c.h.opts.Logger.Warn("export failed", "session", row.ID, "error", err)
		return errors.Join(sse.ErrCut, err)
	}
	return err
}

// exportWriter writes an export. It sets the headers with the first write, since the response may be a problem until then.
type exportWriter struct {
	c               *request
	w               io.Writer
	mediaType, name string
	begun           bool
}

// Write implements io.Writer.
func (w *exportWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.begun = true
		h := w.c.w.Header()
		h.Set("Content-Type", w.mediaType)
		h.Set("Content-Disposition", "attachment; filename="+w.name)
		h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
		h.Set("Cache-Control", "no-store")
		w.c.w.WriteHeader(http.StatusOK)
	}
	return w.w.Write(p)
}
