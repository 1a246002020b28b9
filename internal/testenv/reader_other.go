//go:build !linux

package testenv

import "testing"

// AsReader runs fn. Tests on this system do not run as root, so the permissions of files hold.
func AsReader(_ testing.TB, fn func()) { fn() }
