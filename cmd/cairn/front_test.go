//go:build !demo

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/internal/testenv"
)

// front is a TLS server in front of Temporal's, which speaks no TLS.
type front struct {
	address string
	passed  atomic.Int64 // number of requests passed on
}

// newFront starts a front that passes on requests with the headers, and rejects others as Temporal Cloud does.
func newFront(t *testing.T, config *tls.Config, headers map[string]string) *front {
	t.Helper()
	f := &front{}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: testenv.Temporal(t)})
	behind.Transport, behind.FlushInterval = &http.Transport{Protocols: &protocols}, -1
	behind.ErrorLog = log.New(io.Discard, "", 0)
	behind.ModifyResponse = withTrailers
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			if r.Header.Get(name) != value {
				w.Header().Set("Content-Type", "application/grpc")
				w.Header().Set("Grpc-Status", "16")
				w.Header().Set("Grpc-Message", "Request unauthorized.")
				return
			}
		}
		f.passed.Add(1)
		behind.ServeHTTP(w, r)
	}))
	server.TLS, server.EnableHTTP2 = config, true
	server.Config.ErrorLog = behind.ErrorLog
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	f.address = server.Listener.Addr().String()
	return f
}

// withTrailers moves the status of a call that failed at once into a trailer. gRPC puts it into the header of a
// response without a body, but the proxy may flush the header before it sees the end, and then only a trailer
// counts.
func withTrailers(r *http.Response) error {
	for name, values := range r.Header {
		if name == "Grpc-Message" || strings.HasPrefix(name, "Grpc-Status") {
			if r.Trailer == nil {
				r.Trailer = http.Header{}
			}
			r.Trailer[name] = values
			delete(r.Header, name)
		}
	}
	return nil
}

// authority signs certificates and stores them in a directory: its own in ca.pem, others in NAME.pem with NAME.key.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T, dir string) *authority {
	t.Helper()
	a := &authority{dir: dir, pool: x509.NewCertPool()}
	a.cert, a.key = a.sign(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.pool.AddCert(a.cert)
	return a
}

// issue issues a certificate for this machine, as a server and as a client.
func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	a.sign(t, name, &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	return must(tls.LoadX509KeyPair(a.path(name+".pem"), a.path(name+".key")))
}

// sign signs a certificate with the authority's key, or self-signs it if there is no authority yet.
func (a *authority) sign(t *testing.T, name string, cert *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	cert.SerialNumber, cert.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	cert.NotBefore, cert.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	signer, signed := a.key, a.cert
	if signer == nil {
		signer, signed = key, cert
	}
	der := must(x509.CreateCertificate(rand.Reader, cert, signed, &key.PublicKey, signer))
	a.write(t, name+".pem", "CERTIFICATE", der)
	a.write(t, name+".key", "EC PRIVATE KEY", must(x509.MarshalECPrivateKey(key)))
	return must(x509.ParseCertificate(der)), key
}

func (a *authority) write(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(a.path(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (a *authority) path(file string) string { return filepath.Join(a.dir, file) }

// server returns the settings of a TLS server. With strict, it requires a client certificate of the authority.
func (a *authority) server(t *testing.T, strict bool) *tls.Config {
	t.Helper()
	config := &tls.Config{Certificates: []tls.Certificate{a.issue(t, "server")}, ClientCAs: a.pool}
	if strict {
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config
}
