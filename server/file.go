package server

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/server/aisdk"
)

// A file of a message is read at an address of its own, so that neither streams nor histories carry its bytes. A
// page shows it with an element that does not send the page's credentials, such as an image. The addresses that
// chats get are therefore signed: each opens one file, without other credentials, until the end of the next day.

// fileIn names a file of a message.
type fileIn struct {
	ID string `path:"id"`
	// Message is the index of the message in the transcript, counted from 0.
	Message int `path:"message"`
	// File is which of the message's files it is, counted from 0.
	File int `path:"file"`
	// MessageID is the id of the message. If a rewind has put another message at the index, the file is not found.
	MessageID string `query:"message_id"`
	// Expires, in seconds since 1970, and Signature belong to a signed address. It needs no other credentials.
	Expires   string `query:"expires"`
	Signature string `query:"signature"`
	// Tenant belongs to the address of a file in a tenant's session.
	Tenant string `query:"tenant"`
}

// filePath matches the path of a file.
var filePath = regexp.MustCompile(`/sessions/([^/]+)/messages/(\d{1,9})/files/(\d{1,9})$`)

// shownInPlace are the types of files that a browser may display as a page of the server, since they contain no
// code.
var shownInPlace = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/avif": true}

// getFile responds with the bytes of a file.
func getFile(c *request, in *fileIn) error {
	if !c.confined() {
		in.ID = ids.In(in.Tenant, in.ID)
	} else if in.Tenant != "" && in.Tenant != c.principal.Tenant {
		return noFile()
	}
	part, err := c.openExcerpt(in.ID)
	if err != nil {
		return err
	}
	if in.Message >= part.upTo {
		return noFile()
	}
	file, err := c.content(in)
	if err != nil {
		return err
	}
	if in.MessageID != "" && file.messageID != in.MessageID || file.content == nil {
		return noFile()
	}
	file.version = digest(file.messageID, strconv.Itoa(in.File))
	file.immutable = in.MessageID != "" // messages do not change
	return c.send(file)
}

// send responds with a file, or the range of it that was requested, so that no browser runs it as a page of the server.
func (c *request) send(file *served) error {
	kind, params, err := mime.ParseMediaType(file.mediaType)
	full := mime.FormatMediaType(kind, params)
	if err != nil || full == "" {
		full = "application/octet-stream"
	}
	disposition := "attachment"
	if shownInPlace[kind] {
		disposition = "inline"
	}
	if named := mime.FormatMediaType(disposition, map[string]string{"filename": file.name}); file.name != "" && named != "" {
		disposition = named
	}
	h := c.w.Header()
	h.Set("Content-Type", full)
	h.Set("Content-Disposition", disposition)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Etag", strconv.Quote(file.version))
	h.Set("Cache-Control", "private, no-cache")
	if file.immutable {
		h.Set("Cache-Control", "private, max-age=86400, immutable")
	}
	if strings.Contains(c.r.Header.Get("Range"), ",") {
		c.r.Header.Del("Range") // each of many small ranges could read another part of an artifact from the store
	}
	w := &fileWriter{boundedWriter: c.bounded()}
	http.ServeContent(w, c.r, "", file.createdAt, file.content)
	if w.beyond {
		return &httpError{http.StatusRequestedRangeNotSatisfiable, "range_not_satisfiable", "range not satisfiable"}
	}
	return nil
}

// served is a file of a message, an artifact, or a file of a workspace.
type served struct {
	messageID, name, mediaType string
	createdAt                  time.Time     // zero if it is not known
	content                    io.ReadSeeker // nil for a file that is elsewhere
	// version identifies the content. immutable reports whether the address always has this content.
	version   string
	immutable bool
}

// content returns what an address names: a file of a message that a chat shows, or an artifact of the results there.
func (c *request) content(in *fileIn) (*served, error) {
	m, file, err := c.file(in.ID, in.Message, in.File)
	if err == nil {
		out := &served{messageID: m.ID, name: file.Name, mediaType: file.MediaType, createdAt: m.CreatedAt}
		if len(file.Data) > 0 {
			out.content = bytes.NewReader(file.Data)
		}
		return out, nil
	}
	a, r, failed := c.h.eng.OpenArtifact(c.ctx, in.ID, in.Message, in.File)
	switch {
	case errors.Is(failed, cairn.ErrNotFound):
		return nil, err
	case failed != nil:
		return nil, failed
	}
	return &served{messageID: a.MessageID, name: a.Name, mediaType: a.MediaType, createdAt: a.CreatedAt, content: r}, nil
}

// listArtifacts lists artifacts with their addresses.
func listArtifacts(c *request, in *pageIn) (*pageBody[client.SessionArtifact], error) {
	page, err := of(c, in, c.h.eng.Artifacts)
	if err != nil {
		return nil, err
	}
	address := c.addresses()
	out := &pageBody[client.SessionArtifact]{Items: []client.SessionArtifact{}, Next: page.Next, HasMore: page.HasMore, Limit: page.Limit, Offset: page.Offset, Cursor: page.Cursor}
	for _, a := range page.Items {
		a.Blobs = nil
		out.Items = append(out.Items, client.SessionArtifact{PublishedArtifact: a, URL: address(in.ID, a.Message, a.MessageID, a.File)})
	}
	return out, nil
}

// file returns a file of a message that a chat shows.
func (c *request) file(session string, index, n int) (*cairn.Message, *cairn.File, error) {
	if index < 0 || n < 0 {
		return nil, nil, noFile()
	}
	list, err := c.h.eng.Messages(c.ctx, session, index, 1)
	if err != nil {
		return nil, nil, err
	}
	if len(list) == 0 || list[0].Hidden {
		return nil, nil, noFile()
	}
	m := &list[0]
	for i := range m.Parts {
		if f := m.Parts[i].File; f == nil {
			continue
		} else if n == 0 {
			return m, f, nil
		}
		n--
	}
	return nil, nil, noFile()
}

// fileWriter writes a file. It withholds the response to a range beyond the file, so that the caller can send a
// problem.
type fileWriter struct {
	*boundedWriter
	beyond bool
}

func (w *fileWriter) WriteHeader(status int) {
	if w.beyond = status == http.StatusRequestedRangeNotSatisfiable; !w.beyond {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *fileWriter) Write(b []byte) (int, error) {
	if w.beyond {
		return len(b), nil
	}
	return w.boundedWriter.Write(b)
}

// addresses returns a function that makes addresses of files for the client of the request. If the key cannot be
// read, the addresses are unsigned and need credentials; the rest of the response is still shown.
func (c *request) addresses() aisdk.Address {
	var key []byte
	if !c.h.opts.AllowUnauthenticated {
		var err error
		if key, err = c.h.signingKey(c.ctx); err != nil {
			c.h.opts.Logger.Warn("cannot sign the addresses of files", "error", err)
		}
	}
	base := c.base()
	const day = 24 * time.Hour // the address stays the same for a day, so browsers can cache the file
	expires := strconv.FormatInt(time.Now().UTC().Truncate(day).Add(2*day).Unix(), 10)
	return func(session string, index int, id string, n int) string {
		session = c.full(session)
		message, file := strconv.Itoa(index), strconv.Itoa(n)
		q := url.Values{"message_id": {id}}
		tenant, name := ids.Split(session)
		if tenant != "" {
			q.Set("tenant", tenant)
		}
		if key != nil {
			q.Set("expires", expires)
			q.Set("signature", signature(key, session, message, file, id, expires))
		}
		return base + "/sessions/" + url.PathEscape(name) + "/messages/" + message + "/files/" + file + "?" + q.Encode()
	}
}

// base returns the address of the server as the client of the request sees it: [Options].URL, or what precedes the
// path of the route. A page of another origin gets an absolute address.
func (c *request) base() string {
	if u := c.h.opts.URL; u != "" {
		return strings.TrimSuffix(u, "/")
	}
	asked, _, _ := strings.Cut(c.r.RequestURI, "?")
	base, whole := strings.CutSuffix(asked, c.r.URL.EscapedPath())
	if !whole || base != "" && !strings.HasPrefix(base, "/") {
		base = ""
	}
	origin, err := url.Parse(c.r.Header.Get("Origin"))
	if err != nil || origin.Host == "" || origin.Host == c.r.Host {
		return base
	}
	scheme := "http"
	if c.r.TLS != nil || c.r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	return scheme + "://" + c.r.Host + base
}

// sessionOf returns the id of the session in the address of a file. The error is ErrInvalid if it is of a tenant that the
// client is not of.
func (c *request) sessionOf(name, tenant string) (string, error) {
	own := tenant
	if c.confined() {
		own = c.principal.Tenant
	}
	if tenant != own || strings.Contains(name, ids.Separator) {
		return "", cairn.Invalid("messages", "the last one has a file of another session")
	}
	return ids.In(own, name), nil
}

// ownFiles replaces the addresses of files of a thread's sessions in a client's message by the files. Clients post such
// addresses back when they edit an earlier message of their user.
func (c *request) ownFiles(thread string, m *cairn.Message) error {
	for i := range m.Parts {
		f := m.Parts[i].File
		if f == nil || f.URL == "" {
			continue
		}
		address, err := url.Parse(f.URL)
		if err != nil || address.Host != "" && !strings.HasPrefix(f.URL, c.base()+"/") && address.Host != c.r.Host {
			continue
		}
		at := filePath.FindStringSubmatch(address.EscapedPath())
		if at == nil {
			continue
		}
		id, err := url.PathUnescape(at[1])
		if err != nil {
			return cairn.Invalid("messages", "the last one has an invalid file address")
		}
		if id, err = c.sessionOf(id, address.Query().Get("tenant")); err != nil {
			return err
		}
		row, err := c.open(id, ActionRun)
		if id != thread && (err != nil || row.ThreadID != thread) {
			return cairn.Invalid("messages", "the last one has a file of another session")
		}
		if err != nil {
			return err
		}
		index, _ := strconv.Atoi(at[2]) // digits
		n, _ := strconv.Atoi(at[3])
		of, stored, err := c.file(id, index, n)
		if err == nil && address.Query().Get("message_id") != of.ID {
			err = noFile()
		}
		if err != nil {
			return err
		}
		m.Parts[i].File = stored
	}
	return nil
}
