package testenv

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn/internal/testclock"
)

// clusterNodes is the minimum number of primaries in a cluster.
const clusterNodes = 3

// RedisCluster returns the URL of a node of a Redis Cluster of three primaries that is started for this test binary
// and keeps its data in memory. The tests of a package share it, so each must use its own prefix.
func RedisCluster(tb testing.TB) (url string) {
	tb.Helper()
	url, err := sharedCluster()
	if err != nil {
		tb.Fatal(err)
	}
	return url
}

var sharedCluster = sync.OnceValues(func() (string, error) {
	var addresses []string
	for range clusterNodes {
		address, err := startNode()
		if err != nil {
			return "", err
		}
		addresses = append(addresses, address)
	}
	join := append([]string{"--cluster", "create", "--cluster-yes"}, addresses...)
	if out, err := exec.Command("redis-cli", join...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("testenv: redis-cli %s: %w\n%s", strings.Join(join, " "), err, out)
	}
	return "redis://" + addresses[0], awaitCluster(addresses)
})

// startNode starts a server to be a cluster's node. Nodes communicate over ports. If one of a node's two ports is
// in use, startNode tries others.
func startNode() (address string, err error) {
	for range 10 {
		var port int
		if port, err = freePort(); err != nil {
			return "", err
		}
		_, err = startRedis("redis-node", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes",
			"--cluster-port", strconv.Itoa(port+10_000), "--appendonly", "no")
		if err == nil {
			return loopback(port), nil
		}
	}
	return "", err
}

// awaitCluster waits until every node reports the cluster as complete.
func awaitCluster(addresses []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	for _, address := range addresses {
		host, port, _ := strings.Cut(address, ":")
		var out []byte
		var err error
		if testclock.Poll(ctx, func() bool {
			out, err = exec.Command("redis-cli", "-h", host, "-p", port, "cluster", "info").CombinedOutput()
			return err == nil && strings.Contains(string(out), "cluster_state:ok") && strings.Contains(string(out), "cluster_known_nodes:"+strconv.Itoa(len(addresses)))
		}) != nil {
			return fmt.Errorf("testenv: the cluster does not form after %s: %w\n%s", startWithin, err, out)
		}
	}
	return nil
}
