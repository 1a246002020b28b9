// Package hop holds the tests of sessions that move between hosts: begun on one, resumed on another. It is a module of
// its own because it requires all hosts.
package hop
