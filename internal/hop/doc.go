// Package hop holds the tests of sessions that move between hosts: begun on one, resumed on another. It is a
// separate module because it requires all hosts.
package hop
