package peer

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// CommandLine returns how a server is started, with a placeholder for what changes.
func (o *Setup) CommandLine(s Server) string {
	dir, err := os.MkdirTemp(o.Dir, "peers-header-")
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(dir)
	const port = 59999 // stands for any
	args, err := s.args(o, s, dir, port)
	if err != nil {
		return err.Error()
	}
	for i, arg := range args {
		if arg == "" {
			args[i] = `""`
		}
	}
	line := strings.Join(append([]string{filepath.Base(s.Program)}, args...), " ")
	return strings.NewReplacer(dir, "DIR", fmt.Sprint(port), "PORT").Replace(line)
}

// Version returns the first line that the server's version command prints.
func (s Server) Version() string {
	out, err := exec.Command(s.Program, s.version).Output()
	if err != nil {
		return "version unknown: " + err.Error()
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
