package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
)

// shortenCommand is the word behind which the lab, started anew, runs another program and makes its reads and writes of
// files come up short. strace could only say that they did.
const shortenCommand = "shorten-calls"

// shortPrefix is a launch prefix under which every pread64 and pwrite64 of the server is
// asked for a part of its bytes only. How many were is written to a file when the server ends.
func shortPrefix(tally string) ([]string, error) {
	if !canShorten {
		return nil, fmt.Errorf("calls cannot be shortened on %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	self, err := os.Executable()
	return []string{self, shortenCommand, tally}, err
}

// runShortened is what the lab does when such a prefix started it; its arguments say so. It returns the
// status to exit with.
func runShortened(args []string) (status int, is bool) {
	if len(args) < 3 || args[0] != shortenCommand {
		return 0, false
	}
	n, err := traceShortened(args[2:])
	if err == nil {
		err = os.WriteFile(args[1], []byte(strconv.Itoa(n)), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}
