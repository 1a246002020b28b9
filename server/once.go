package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// A POST with an Idempotency-Key is done once, however often it arrives and at whichever process. Two things ensure
// that. The ids of the run and the session that it creates derive from the user, the route, the key and the
// request, so a request that is repeated after a crash finds what it has created. A record keeps what was asked
// under the key, and the response.
const (
	keyHeader = "Idempotency-Key"
	keyPrefix = "idempotency/" // of records
	// keysKept is how long a key is remembered.
	keysKept = 24 * time.Hour
	// replayedHeader marks a response that was given before.
	replayedHeader = "Idempotency-Replayed"
)

// once is a request with an Idempotency-Key.
type once struct {
	records store.Records
	user    string
	key     string // of the record
	seed    string // of ids
	version int64  // of the record
	kept    keptAnswer
	// rights are what the principal was permitted to do for this request.
	rights []right
	// again reports that the request came before and has no known response: it is under way in another process, or
	// was cut short.
	again bool
}

// keptAnswer is the record of a key.
type keptAnswer struct {
	// Request is a digest of what was requested.
	Request string `json:"request"`
	// Before is what the first request with the key found, for requests that must not act on anything newer.
	Before string          `json:"before,omitempty"`
	Status int             `json:"status,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
	// Rights are what the request was permitted to do. The response is shown again only to a principal who still has
	// them.
	Rights []right `json:"rights,omitempty"`
}

// right is an access that a policy has permitted: to a session or, if Call is set, to a pending call of its tree.
type right struct {
	Session string `json:"session"`
	Action  Action `json:"action"`
	Call    string `json:"call,omitempty"`
	// Agent and User are set in place of Session for memories of a user or a group.
	Agent string `json:"agent,omitempty"`
	User  string `json:"user,omitempty"`
}

// permitted notes an access that the policy has permitted.
func (o *once) permitted(a *Access, session string) {
	r := right{Session: session, Action: a.Action}
	if a.Call != nil {
		r.Call = a.Call.ID
	}
	if session == "" {
		r.Agent, r.User = a.Session.Agent, a.Session.UserID
	}
	if !slices.Contains(o.rights, r) {
		o.rights = append(o.rights, r)
	}
}

// stillPermitted returns the error of the first right that the principal has no longer.
func (c *request) stillPermitted(rights []right) (err error) {
	for _, r := range rights {
		switch {
		case r.Call != "":
			_, _, err = c.openCall(r.Session, r.Call)
		case r.Session == "":
			tenant, _ := ids.Split(r.User)
			of := &cairn.Session{Tenant: cmp.Or(tenant, c.tenant()), Agent: r.Agent, UserID: r.User}
			_, err = c.allowMemory(of, []Action{r.Action})
		default:
			_, err = c.open(r.Session, r.Action)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// serveOnce calls serve at most once for the request's Idempotency-Key.
func (c *request) serveOnce(serve func(*request) error) error {
	key := c.r.Header.Get(keyHeader)
	if c.r.Method != http.MethodPost || len(c.r.Header.Values(keyHeader)) == 0 {
		return serve(c)
	}
	if !validID(key) || len(c.r.Header.Values(keyHeader)) > 1 {
		return cairn.Invalid(keyHeader, "must be a single value of 1 to 128 visible ASCII characters")
	}
	o := &once{records: c.h.eng.Records(), user: c.principal.User}
	if o.records == nil {
		return cairn.Invalid(keyHeader, "not supported: the server's store keeps no records")
	}
	body, err := c.readBody()
	if err != nil {
		return err
	}
	c.r.Body = io.NopCloser(bytes.NewReader(body))
	o.kept.Request = digest(c.r.URL.Query().Encode(), string(body))
	o.key = keyPrefix + digest(c.principal.limitKey(), c.r.Method, c.r.URL.Path, key)
	o.seed = digest(o.key, o.kept.Request)
	if err := o.begin(c.ctx); err != nil {
		return err
	}
	if o.kept.Status != 0 {
		if err := c.stillPermitted(o.kept.Rights); err != nil {
			return err
		}
		c.w.Header().Set(replayedHeader, "true")
		return c.json(o.kept.Status, o.kept.Body)
	}
	c.once = o
	err = serve(c)
	if err != nil && !o.again && c.ctx.Err() == nil && httpStatus(err) < http.StatusInternalServerError {
		o.forget(c) // nothing was done
	}
	return err
}

// begin finds the record of the key, or creates it.
func (o *once) begin(ctx context.Context) error {
	asked := o.kept.Request
	err := o.put(ctx)
	there := driver.SeenRecord(err)
	if there == nil {
		return err
	}
	o.kept, o.again, o.version = keptAnswer{}, true, there.Version
	if err := json.Unmarshal(there.Value, &o.kept); err != nil {
		return err
	}
	if o.kept.Request != asked {
		return &httpError{http.StatusUnprocessableEntity, "idempotency_key_reused", "Idempotency-Key was already used for a different request"}
	}
	return nil
}

// put writes the record, if it still has the version that was seen.
func (o *once) put(ctx context.Context) error {
	value, err := json.Marshal(o.kept)
	if err != nil {
		return err
	}
	rec, err := o.records.Put(ctx, store.RecordWrite{Namespace: store.UserRecords, Key: o.key, Index: driver.UserIndex(o.user),
		Value: value, Seen: o.version, TTL: keysKept})
	if err == nil {
		o.version = rec.Version
	}
	return err
}

// answered keeps the response to a request. A response that cannot be kept is not a failure: the request would be
// done again, without further effect.
func (c *request) answered(status int, body []byte) {
	o := c.once
	o.kept.Status, o.kept.Body, o.kept.Rights, o.version = status, body, o.rights, store.AnyVersion
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), answerTimeout)
	defer cancel()
	if err := o.put(ctx); err != nil {
		c.h.opts.Logger.Warn("answer to a request with an Idempotency-Key not stored", "path", c.r.URL.Path, "error", err)
	}
}

const answerTimeout = 5 * time.Second

// forget removes the record of a request that was refused, so that a corrected one may use the key.
func (o *once) forget(c *request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), answerTimeout)
	defer cancel()
	if err := o.records.Delete(ctx, store.UserRecords, o.key, o.version); err != nil && !errors.Is(err, cairn.ErrNotFound) && !errors.Is(err, cairn.ErrStale) {
		c.h.opts.Logger.Warn("Idempotency-Key not released", "path", c.r.URL.Path, "error", err)
	}
}

// first returns what the first request with the key found. If this is the first one, that is now.
func (c *request) first(now string) (string, error) {
	o := c.once
	if o == nil || o.kept.Before == now {
		return now, nil
	}
	for o.kept.Before == "" {
		o.kept.Before = now
		err := o.put(c.ctx)
		there := driver.SeenRecord(err)
		if there == nil {
			return now, err
		}
		o.kept, o.version = keptAnswer{}, there.Version
		if err := json.Unmarshal(there.Value, &o.kept); err != nil {
			return "", err
		}
	}
	return o.kept.Before, nil
}

// changed reports whether the object to be changed has another version than the first request with the key found.
// It was then changed by that request, or later.
func (c *request) changed(version int64) (bool, error) {
	now := strconv.FormatInt(version, 10)
	before, err := c.first(now)
	return before != now, err
}

// repeated reports whether the request came before, so that what it creates may exist.
func (c *request) repeated() bool { return c.once != nil && c.once.again }

// newID returns an id for a session of a client that gave none.
func (c *request) newID() string {
	if c.once != nil {
		return c.full("s_" + c.once.seed)
	}
	return c.full(newID())
}

// named adds the run id that keeps a repeated request from beginning a second run.
func (c *request) named(opts ...engine.RunOption) []engine.RunOption {
	if c.once != nil {
		opts = append(opts, engine.WithRunID("run_"+c.once.seed))
	}
	return opts
}

// newID returns a random id for a session.
func newID() string { return "s_" + strings.ToLower(rand.Text()) }
