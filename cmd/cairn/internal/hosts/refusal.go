//go:build !demo && !notemporal

package hosts

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
)

// refused explains, in the terms of the settings, why the server rejected a request.
func (s *temporalServer) refused(ctx context.Context, err error) error {
	switch status := serviceerror.ToStatus(err); status.Code() {
	case codes.Unauthenticated, codes.PermissionDenied:
		who := s.certificate()
		if s.profile.APIKey != "" {
			who = "the API key (" + s.source("api_key", "TEMPORAL_API_KEY") + ")"
		}
		return s.failed("refuses %s: %s", cmp.Or(who, "a client without TEMPORAL_API_KEY"), status.Message())
	case codes.Unavailable:
		return s.unreachable(ctx, err)
	case codes.DeadlineExceeded:
		return s.silent(err)
	}
	return s.failed("fails: %w", err)
}

// unreachable asks the server once more, because gRPC reports TLS errors in prose only.
func (s *temporalServer) unreachable(ctx context.Context, err error) error {
	config := s.opts.ConnectionOptions.TLS
	if config == nil {
		if shaken := s.handshake(ctx, &tls.Config{InsecureSkipVerify: true}); shaken == nil || isAlert(shaken) {
			return s.failed("requires TLS; set ?tls=true or TEMPORAL_TLS=true")
		}
		return s.silent(err)
	}
	shaken := s.handshake(ctx, config)
	var (
		plain     tls.RecordHeaderError
		distrust  *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
	)
	switch {
	case errors.As(shaken, &plain):
		return s.failed("does not support TLS, which %s requires", s.secured())
	case errors.As(shaken, &authority):
		return s.failed("is not trusted: %w (see TEMPORAL_TLS_SERVER_CA_CERT_PATH)", authority)
	case errors.As(shaken, &name):
		return s.failed("is not trusted: %w (see TEMPORAL_TLS_SERVER_NAME)", name)
	case errors.As(shaken, &distrust):
		return s.failed("is not trusted: %w", distrust.Err)
	case isAlert(shaken):
		return s.failed("refuses %s: %w", cmp.Or(s.certificate(), "a client without TEMPORAL_TLS_CLIENT_CERT_PATH"), shaken)
	}
	return s.silent(err)
}

// patience is how long a server may take to reject a certificate: TLS 1.3 does so after its handshake.
const patience = 2 * time.Second

// handshake returns the TLS error that occurs before the server's first byte; nil if there is none.
func (s *temporalServer) handshake(ctx context.Context, config *tls.Config) error {
	config = config.Clone()
	config.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", s.at.place)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := conn.Read(make([]byte, 1)); isAlert(err) {
		return err
	}
	return nil
}

// isAlert reports whether the error is an alert from the other side of TLS.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// certificate names the client's certificate; empty if it has none.
func (s *temporalServer) certificate() string {
	if config := s.opts.ConnectionOptions.TLS; config == nil || len(config.Certificates) == 0 {
		return ""
	}
	return "the client certificate (" + s.source("tls", clientVariables...) + ")"
}

// secured names the setting that asks for TLS.
func (s *temporalServer) secured() string {
	if s.at.tls == "true" {
		return "?tls=true"
	}
	names := slices.Concat([]string{"TEMPORAL_TLS", "TEMPORAL_TLS_SERVER_NAME", "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION"}, authorityVariables, clientVariables)
	if s.profile.TLS == nil {
		return s.source("api_key", "TEMPORAL_API_KEY")
	}
	return s.source("tls", names...)
}

func (s *temporalServer) silent(err error) error {
	return cairn.Errorf(cairn.ErrUnavailable, "cannot reach a Temporal server at %s: %w", s.at.place, err)
}

// failed returns an error whose subject is the server.
func (s *temporalServer) failed(format string, args ...any) error {
	return cairn.Errorf(cairn.ErrUnavailable, "the Temporal server at %s "+format, append([]any{s.at.place}, args...)...)
}
