package clientcmd

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// terminal is a real terminal: tmux, without anybody in front of it.
type terminal struct {
	t      *testing.T
	socket string
}

// open runs a command line on a terminal of some size.
func open(t *testing.T, p *clitest.Process, width, height int, line string) *terminal {
	t.Helper()
	clitest.Tool(t, "tmux")
	program, err := clitest.BuildBinary()
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{t, filepath.Join(t.TempDir(), "tmux")}
	x.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height),
		"-e", "KESTREL_SERVER="+p.Addr, "-e", "XDG_CONFIG_HOME="+t.TempDir(),
		strings.Replace(line, "kestrel", program, 1)+"; echo \"ended with $?\"; read end")
	t.Cleanup(func() { exec.Command("tmux", "-S", x.socket, "kill-server").Run() })
	return x
}

func (x *terminal) tmux(args ...string) string {
	x.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", x.socket}, args...)...).CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// press types keys, by tmux's names.
func (x *terminal) press(keys ...string) {
	x.t.Helper()
	x.tmux(append([]string{"send-keys"}, keys...)...)
}

// shows waits until the screen is as it should.
func (x *terminal) shows(what string, as func(screen string) bool) string {
	x.t.Helper()
	screen := ""
	for end := time.Now().Add(clitest.Patience); time.Now().Before(end); {
		screen = x.tmux("capture-pane", "-p")
		if as(screen) {
			return screen
		}
	}
	x.t.Fatalf("the terminal does not show %s:\n%s", what, screen)
	return ""
}

// has waits until the screen has all texts.
func (x *terminal) has(texts ...string) string {
	x.t.Helper()
	return x.shows(fmt.Sprintf("%q", texts), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// TestEndToEndTop uses `kestrel top` on a real terminal: sorting, a filter, a queue, another size, a
// server that dies.
func TestEndToEndTop(t *testing.T) {
	p := clitest.Serve(t, "--admin-port", "auto")
	c := p.Dial()
	for i := range 3 {
		for range i + 1 {
			c.Ask(fmt.Sprintf("set queue-%d 0 0 5\nhello\n", i), "STORED\n")
		}
	}
	x := open(t, p, 100, 20, "kestrel top --interval 100ms --admin "+p.Saw("admin port is open")["address"].(string))
	before := func(first, then string) func(string) bool {
		return func(screen string) bool {
			at := strings.Index(screen, first)
			return at >= 0 && strings.Index(screen, then) > at
		}
	}
	x.has("kestrel top", "3 queues, 6 items, 30 B", "▼ITEMS", "WAITING", "q quit")
	x.shows("queue-2 first", before("queue-2", "queue-0"))
	x.press("r")
	x.shows("queue-0 first", before("queue-0", "queue-2"))
	x.press("1")
	x.has("▼QUEUE")
	c.Ask("set queue-1 0 0 5\nhello\n", "STORED\n")
	x.has("7 items")
	x.press("/", "e-1", "Enter")
	x.shows("one queue", func(screen string) bool {
		return strings.Contains(screen, "queue-1") && !strings.Contains(screen, "queue-0")
	})
	x.press("Enter")
	x.has("discarded", "in/s", "esc back")
	x.press("c")
	x.has("connections", "No connection holds an item")
	holder := p.Dial()
	holder.Ask("get queue-1/open\n", "VALUE queue-1 0 5\nhello\nEND\n")
	x.has("PEER", "OLDEST", "127.0.0.1:", "memcache")
	x.press("Escape")
	x.has("discarded")
	x.press("Escape")
	x.has("▼QUEUE", "[e-1]")
	x.tmux("resize-window", "-x", "45", "-y", "10")
	x.shows("a narrow screen", func(screen string) bool {
		return strings.Contains(screen, "queue-1") && !strings.Contains(screen, "WAITING") && strings.Contains(screen, "ITEMS")
	})
	x.tmux("resize-window", "-x", "120", "-y", "30")
	x.has("WAITING")
	x.press("?")
	x.has("look into the chosen queue")
	x.press("x")
	p.Cmd.Process.Kill()
	x.has("connection refused")
	x.press("q")
	x.has("ended with 0")
}

// TestEndToEndShell types into `kestrel shell`: completion, history, a question, its end.
func TestEndToEndShell(t *testing.T) {
	p := clitest.Serve(t)
	x := open(t, p, 100, 20, "kestrel shell")
	x.has("kestrel>")
	x.press("pu", "Tab", "work 'hello world'", "Enter")
	x.has(`1 item put into "work"`)
	x.press("Up", "Enter")
	x.shows("two puts", func(screen string) bool { return strings.Count(screen, "1 item put") == 2 })
	x.press("flush work", "Enter")
	x.has(`"work" has 2 items (22 B): flush it? [y/N]`)
	x.press("n", "Enter")
	x.has("nothing was done")
	x.press("get work", "Enter")
	x.has("\nhello world\n")
	x.press("nonsense", "Enter")
	x.has(`unknown command "nonsense"`)
	x.press("exit", "Enter")
	x.has("ended with 0")
}

// TestEndToEndBackupProgress backs up on a terminal: a line says how far the copy is, of how much. A slow rate makes it
// last.
func TestEndToEndBackupProgress(t *testing.T) {
	p := clitest.Serve(t, "--admin-port", "auto")
	c := p.Dial()
	c.Send("set work 0 0 4000000\n" + strings.Repeat("x", 4000000) + "\n")
	if got := c.Read(1); got != "STORED\n" {
		t.Fatalf("the put got %q", got)
	}
	x := open(t, p, 100, 20, "kestrel backup --rate 1 --output "+filepath.Join(t.TempDir(), "nightly")+" --admin "+
		p.Saw("admin port is open")["address"].(string))
	x.has("%  copied ", " of ", "[#")
	x.press("C-c")
}

// TestEndToEndNarrow prints on a terminal of 40 columns: each line fits, and none is broken into two.
func TestEndToEndNarrow(t *testing.T) {
	p := clitest.Serve(t, "--admin-port", "auto")
	admin := " --admin " + p.Saw("admin port is open")["address"].(string)
	const name = "a-name-of-more-columns-than-the-terminal-has"
	p.Dial().Ask("set "+name+" 0 0 1\na\nget "+name+"/open\n", "STORED\nVALUE "+name+" 0 1\na\nEND\n")
	for _, tt := range []struct {
		line, want string
		lines      int // without the one that says how it ended
	}{
		{"kestrel watch --count 1 --interval 50ms", "  a-name-of-more…\n", 2},
		{"kestrel clients" + admin, "HOLDS", 3},
		{"kestrel ls", "a-name-of-mo", 2},
		{"kestrel stat", "SERVER", 2},
		{"kestrel cluster status", "SERVER", 2},
		{"kestrel top --once" + admin, "QUEUE", 5},
	} {
		screen := open(t, p, 40, 20, tt.line).has("ended with 0", tt.want)
		if text, _, _ := strings.Cut(screen, "ended with"); strings.Count(text, "\n") != tt.lines {
			t.Errorf("%s has %d lines on a narrow terminal, want %d:\n%s", tt.line, strings.Count(text, "\n"), tt.lines, text)
		}
	}
}
