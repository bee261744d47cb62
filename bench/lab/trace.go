package main

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// call is a system call in the output of strace, or one half of it. The tracer sees a call begin and end, and what
// another thread does in between comes in between.
type call struct {
	pid    string
	name   string
	args   string // as strace words them; of the end of a call only what it had not said before
	begins bool
	ends   bool
	result int64 // if it ends; -1 for an error
}

// straceArgs returns the command that traces the calls with their data, into a file, and follows
// descriptors to names and addresses. More are put before the program.
func straceArgs(file, calls string, more ...string) []string {
	args := []string{
		"strace", "-f", "-qq", "-yy", "-s", "1000000", "--seccomp-bpf", "-o", file,
		"-e", "trace=" + calls,
	}
	return append(args, more...)
}

// haveStrace returns why strace cannot be used, or nil.
func haveStrace() error {
	if err := exec.Command("strace", "-qq", "-o", "/dev/null", "true").Run(); err != nil {
		return fmt.Errorf("strace: %w", err)
	}
	return nil
}

var (
	wholeCall   = regexp.MustCompile(`(?s)^(\d+) +(\w+)\((.*)\) += (-?\d+|\?)`)
	callBegins  = regexp.MustCompile(`(?s)^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$`)
	callResumes = regexp.MustCompile(`(?s)^(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (-?\d+|\?)`)
)

// parseCall parses a line. Lines that are no calls, such as those about signals, are not ok.
func parseCall(line string) (c call, ok bool) {
	if m := callBegins.FindStringSubmatch(line); m != nil {
		return call{pid: m[1], name: m[2], args: m[3], begins: true}, true
	}
	if m := callResumes.FindStringSubmatch(line); m != nil {
		return call{pid: m[1], name: m[2], args: m[3], ends: true, result: parseResult(m[4])}, true
	}
	if m := wholeCall.FindStringSubmatch(line); m != nil {
		return call{m[1], m[2], m[3], true, true, parseResult(m[4])}, true
	}
	return call{}, false
}

func parseResult(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return -1 // "?": the process ended meanwhile
	}
	return n
}

// readTrace calls visit for every call in a trace, in the order in which they began and ended.
func readTrace(r io.Reader, visit func(call)) error {
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if c, ok := parseCall(strings.TrimRight(line, "\n")); ok {
			visit(c)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
