//go:build !linux

package main

import (
	"errors"
	"os"
	"syscall"
)

func openTerminal(_, _ uint16) (controller, terminal *os.File, err error) {
	return nil, nil, errors.New("recording needs Linux")
}

func atTerminal() *syscall.SysProcAttr { return nil }
