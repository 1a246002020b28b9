// Package hop holds the tests of what is between hosts: sessions that were begun on one and go on another. It is a module of
// its own because it requires all of them.
package hop
