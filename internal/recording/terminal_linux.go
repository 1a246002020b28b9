package main

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// openTerminal returns both ends of a new pseudo-terminal.
func openTerminal(columns, rows uint16) (controller, terminal *os.File, err error) {
	controller, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	var unlock, number uint32
	size := [4]uint16{rows, columns}
	for _, c := range []struct {
		request uintptr
		value   unsafe.Pointer
	}{
		{syscall.TIOCSPTLCK, unsafe.Pointer(&unlock)}, {syscall.TIOCGPTN, unsafe.Pointer(&number)}, {syscall.TIOCSWINSZ, unsafe.Pointer(&size)},
	} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, controller.Fd(), c.request, uintptr(c.value)); errno != 0 {
			controller.Close()
			return nil, nil, errno
		}
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		controller.Close()
		return nil, nil, err
	}
	return controller, terminal, nil
}

// atTerminal makes a process's standard input its controlling terminal.
func atTerminal() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true, Setctty: true} }
