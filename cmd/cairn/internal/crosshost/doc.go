// Package crosshost holds the tests of sessions that move between hosts: begun on one, resumed on another.
package crosshost
