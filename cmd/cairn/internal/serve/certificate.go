package serve

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
)

// certificate is the server's certificate, which may be replaced while it serves.
type certificate struct {
	current atomic.Pointer[tls.Certificate]
}

// load reads the certificate's files. On an error the certificate stays.
func (c *certificate) load(files config.TLS) error {
	if files.Cert == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	c.current.Store(&pair)
	return nil
}

// config returns the settings of a listener.
func (c *certificate) config() *tls.Config {
	return &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil }}
}
