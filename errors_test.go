package cairn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

func TestCodes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code      cairn.Code
		category  cairn.Category
		status    int
		retryable bool
	}{
		{cairn.ErrInvalid, cairn.CategoryInput, http.StatusBadRequest, false},
		{cairn.ErrStale, cairn.CategoryConflict, http.StatusConflict, true},
		{cairn.ErrTrimmed, cairn.CategoryConflict, http.StatusGone, false},
		{cairn.ErrRateLimited, cairn.CategoryModel, http.StatusTooManyRequests, true},
		{cairn.ErrUnavailable, cairn.CategoryStorage, http.StatusServiceUnavailable, true},
		{"from a newer version", cairn.CategorySystem, http.StatusInternalServerError, false},
		{"", cairn.CategorySystem, http.StatusInternalServerError, false},
	} {
		if test.code.Category() != test.category || test.code.HTTPStatus() != test.status || test.code.Retryable() != test.retryable {
			t.Errorf("%q: %s, %d, %v", test.code, test.code.Category(), test.code.HTTPStatus(), test.code.Retryable())
		}
	}
}

func TestErrorIsComparedByCode(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("outer: %w", cairn.Errorf(cairn.ErrStale, "version %d", 3))
	if !errors.Is(err, cairn.ErrStale) || errors.Is(err, cairn.ErrFenced) || errors.Is(err, io.EOF) {
		t.Error("an error is compared by something else than its code")
	}
	var e *cairn.Error
	if !errors.As(err, &e) || e.Message != "version 3" || !e.Retryable() {
		t.Errorf("found %+v within", e)
	}
}

func TestErrorf(t *testing.T) {
	t.Parallel()
	plain := cairn.Errorf(cairn.ErrTool, "tool %q", "refund")
	if plain.Error() != `tool "refund"` || plain.Cause != nil || plain.Code != cairn.ErrTool {
		t.Errorf("got %+v", plain)
	}
	one := cairn.Errorf(cairn.ErrTool, "reading: %w", io.EOF)
	if one.Cause != io.EOF || !errors.Is(one, io.EOF) || one.Error() != "reading: EOF" {
		t.Errorf("got %+v", one)
	}
	two := cairn.Errorf(cairn.ErrTool, "%w after %w", io.EOF, io.ErrClosedPipe)
	if !errors.Is(two, io.EOF) || !errors.Is(two, io.ErrClosedPipe) || two.Error() != "EOF after io: read/write on closed pipe" {
		t.Errorf("got %+v with cause %v", two, two.Cause)
	}
}

func TestInvalidNamesTheField(t *testing.T) {
	t.Parallel()
	err := cairn.Invalid("max_steps", "%d is negative", -1)
	if err.Error() != "max_steps: -1 is negative" || err.Field != "max_steps" || !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("got %+v", err)
	}
}

func TestAsError(t *testing.T) {
	t.Parallel()
	if got := cairn.AsError(nil); got != nil {
		t.Errorf("nil becomes %v", got)
	}
	own := &cairn.Error{Code: cairn.ErrTool, Message: "broke", Field: "f", Details: []string{"d"}, RetryAfter: cairn.Duration(time.Second)}
	if got := cairn.AsError(own); got != own {
		t.Errorf("an Error becomes another: %+v", got)
	}
	wrapped := fmt.Errorf("step 3: %w", own)
	got := cairn.AsError(wrapped)
	if got.Code != cairn.ErrTool || got.Message != "step 3: broke" || got.Field != "f" || got.RetryAfter != cairn.Duration(time.Second) || !errors.Is(got, own) {
		t.Errorf("a wrapped Error becomes %+v", got)
	}
	if own.Message != "broke" {
		t.Error("the inner error was changed")
	}
	if got := cairn.AsError(fmt.Errorf("outer: %w", cairn.ErrDeleted)); got.Code != cairn.ErrDeleted || got.Message != "outer: deleted" || !errors.Is(got, cairn.ErrNotFound) {
		t.Errorf("a wrapped code becomes %+v", got)
	}
	foreign := cairn.AsError(io.EOF)
	if foreign.Code != cairn.ErrInternal || foreign.Message != "EOF" || !errors.Is(foreign, io.EOF) {
		t.Errorf("a foreign error becomes %+v", foreign)
	}
}

func TestErrorIsStored(t *testing.T) {
	t.Parallel()
	given := &cairn.Error{Code: cairn.ErrArguments, Message: "m", Field: "f", RetryAfter: cairn.Duration(time.Minute), Details: []string{"a", "b"}, Cause: io.EOF}
	raw, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	var got cairn.Error
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Code != given.Code || got.Message != "m" || got.Field != "f" || got.RetryAfter != cairn.Duration(time.Minute) || len(got.Details) != 2 || got.Cause != nil {
		t.Errorf("%s becomes %+v", raw, got)
	}
}

func TestContextError(t *testing.T) {
	t.Parallel()
	if err := cairn.ContextError(t.Context(), "the call"); err != nil {
		t.Errorf("the context is not done: %v", err)
	}
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("its cause"))
	expired, cancelExpired := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancelExpired()
	for ctx, want := range map[context.Context]cairn.Code{cancelled: cairn.ErrAborted, expired: cairn.ErrTimeout} {
		err := cairn.ContextError(ctx, "the call")
		if !errors.Is(err, want) || !errors.Is(err, ctx.Err()) || err.Error() != "the call: "+ctx.Err().Error() {
			t.Errorf("got %v, want %s that wraps %v", err, want, ctx.Err())
		}
	}
}
