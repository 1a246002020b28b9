// Package provider is the common part of the model adapters: the idle timeout, and the errors of calls.
package provider

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

const maxMessage = 1000 // bytes of a provider's message that are kept

// Failures makes the errors of one model's calls. Each error names the model, and none contains the key.
type Failures struct {
	Adapter string
	Model   string
	Key     string
}

// Errorf returns an error that has a code and names the model.
func (f Failures) Errorf(code cairn.Code, format string, args ...any) *cairn.Error {
	e := cairn.Errorf(code, "%s: model %q: %w", f.Adapter, f.Model, fmt.Errorf(format, args...))
	e.Cause = errors.Unwrap(e.Cause)
	if f.Key != "" && strings.Contains(e.Message, f.Key) {
		e.Message = strings.ReplaceAll(e.Message, f.Key, "[key]")
		e.Cause = nil // its text contains the key too
	}
	return e
}

// Ended returns the error of a call whose context is done.
func (f Failures) Ended(ctx context.Context) *cairn.Error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return f.Errorf(cairn.ErrTimeout, "%w", err)
	}
	return f.Errorf(cairn.ErrAborted, "%w", err)
}

// Silent returns the error of a call that ended with ErrIdle.
func (f Failures) Silent(idle time.Duration) *cairn.Error {
	return f.Errorf(cairn.ErrOverloaded, "no data received for %v", idle)
}

// Transport returns the error of a call that got no response.
func (f Failures) Transport(err error) *cairn.Error {
	var wrapped *url.Error // repeats the address, which does not help the reader
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		return f.Errorf(cairn.ErrModelRequest, "invalid server certificate: %w", err)
	}
	return f.Errorf(cairn.ErrOverloaded, "cannot reach the server: %w", err)
}

// Clip returns a provider's text in a form that an error can hold: valid UTF-8 of at most about 1,000 bytes.
func Clip(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
