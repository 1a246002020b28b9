package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports that the system gives to connections and to listeners of port 0 are 32768 and above, unless it is configured
// otherwise. Servers that are given a port, and may be started on it again, have one of these.
const (
	firstPort = 10_000
	lastPort  = 19_999
)

// freePort returns a port of the loopback interface that is not in use, and that nobody gets without asking for it.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		var l net.Listener
		if l, err = net.Listen("tcp", loopback(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("testenv: no free port: %w", err)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func freeAddress() (string, error) {
	port, err := freePort()
	return loopback(port), err
}

// FreeAddress returns an address on loopback that is not in use. A test can listen at it several times: nobody gets it in
// the meantime.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	address, err := freeAddress()
	if err != nil {
		tb.Fatal(err)
	}
	return address
}
