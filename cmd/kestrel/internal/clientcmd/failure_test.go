package clientcmd

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndFailures plays what goes wrong, with its message and exit status.
func TestEndToEndFailures(t *testing.T) {
	file := clitest.WriteConfig(t, "[queues.small]\nmax_items = 2\n")
	p := clitest.Serve(t, "--config", file)
	dir := t.TempDir()
	t.Setenv("ANOTHER", clitest.Serve(t).Addr)
	t.Setenv("SILENT", rig(t, ""))
	t.Setenv("FOREIGN", rig(t, "HTTP/1.1 400 Bad Request\r\n"))
	t.Setenv("NOBODY", nobody(t))
	clitest.Transcript(t, p.Addr, dir, `
$ kestrel put small 1 2 3; echo $?
2 items put into "small", and 1 item not
kestrel: put to "small" on 127.0.0.1:…: the queue refused the item: it is full, or the item is too large for it; 'kestrel stat' shows what the queue holds
6
$ kestrel put a.b x
0 items put into "a.b", and 1 item not
kestrel: put to "a.b" on 127.0.0.1:…: the server refused the request with "CLIENT_ERROR"; the server's log says why: the name of a queue has at most 255 bytes, and no ~, . and /, for example
$ kestrel put work x --server $SILENT --timeout 200ms; echo $?
0 items put into "work", and 1 item perhaps
kestrel: put to "work" on 127.0.0.1:…: the outcome is unknown, because no clear answer came: the server did not answer in time (read tcp …: i/o timeout); look before you do it again
7
$ kestrel stat work --server $NOBODY; echo $?
kestrel: ask for statistics on 127.0.0.1:…: dial tcp …: connection refused; is a server running there? --server says where to look
1
$ kestrel stat work --server $KESTREL_SERVER,$SILENT --timeout 200ms; echo $?
kestrel: no server that answers has a queue "work": ask for statistics on 127.0.0.1:…: the server did not answer in time (…)
1
$ kestrel cluster status --server $KESTREL_SERVER,$SILENT --timeout 200ms; echo $?
SERVER  STATUS  SETS  VERSION  UPTIME  CONNECTIONS  QUEUES  ITEMS  OPEN  BYTES
127.0.0.1:…
127.0.0.1:…
kestrel: 1 of 2 servers gave no figures, and what is printed is without: 127.0.0.1:… (the server did not answer in time (…))
1
$ kestrel watch small --server $KESTREL_SERVER,$SILENT --timeout 200ms --interval 10ms --count 1; echo $?
kestrel: ask for statistics on …
TIME           IN/s     OUT/s       ITEMS       BYTES        AGE  WAITING     OPEN  QUEUE
kestrel: ask for statistics on …
…                 0         0           2         2 B  …                0        0  small
0
$ kestrel watch > /dev/full; echo $?
kestrel: write what happens to standard output: no space left on device
1
$ kestrel clients --admin $SILENT --timeout 200ms; echo $?
kestrel: the admin port 127.0.0.1:… cannot be asked: the server did not answer in time; is that an admin port? --admin says where to ask, and --timeout for how long
1
$ kestrel put work x --server $FOREIGN --timeout 5s; echo $?
0 items put into "work", and 1 item not
kestrel: …this is not an answer of a Kestrel server: it said "HTTP/1.1 400 Bad Request"; --server needs a port of the memcache protocol, by default 22133
1
$ kestrel ls --server $NOBODY; echo $?
kestrel: ask for statistics on 127.0.0.1:…: dial tcp 127.0.0.1:…: connect: connection refused; is a server running there? --server says where to look
1
$ kestrel ls small --server $KESTREL_SERVER,$NOBODY 2>&1 | cut -c 1-30
QUEUE  ITEMS  BYTES …
small      2    2 B  …
kestrel: ask for statistics on
$ kestrel ls > /dev/full; echo $?
kestrel: write what was found to standard output: no space left on device
1
$ kestrel put work a; kestrel get work > /dev/full; echo $?; kestrel stat work | grep opened; kestrel peek work
1 item put into "work"
kestrel: write to standard output: no space left on device; nothing was taken
1
  opened        0
a
$ (trap '' XFSZ; ulimit -f 0; kestrel get work > full; echo $?; kestrel drain work --to - --yes > full; echo $?); kestrel peek work
kestrel: write items to standard output: file too large; the items are in the queue again
1
kestrel: write to standard output: file too large; what was taken last is in "work" again
1
a
$ kestrel put work a2; kestrel get work >&-; echo $?; echo get work | kestrel shell >&-; echo $?; kestrel get work --all
1 item put into "work"
kestrel: standard output is closed, or is /dev/null opened to read as well, so nothing was taken: '> /dev/null' would discard it
1
kestrel: standard output is closed, or is /dev/null opened to read as well, so nothing was taken: '> /dev/null' would discard it
kestrel: line 1 failed: get work
1
a
a2
$ kestrel put work a; kestrel get work > /dev/null; echo $?; kestrel put work a
1 item put into "work"
0
1 item put into "work"
$ kestrel get work 1<>/dev/null 2>said; echo $?; kestrel get work 1<>/dev/null 2>&1; echo $?; kestrel put work a
1
0
1 item put into "work"
$ kestrel get work <>/dev/null >&0; echo $?; kestrel put work a
0
1 item put into "work"
$ kestrel drain work --to - --yes > /dev/full; echo $?; kestrel get work
kestrel: write to standard output: no space left on device; nothing was taken
1
a
$ touch there; kestrel put work b; kestrel drain work --to there --yes; echo $?; kestrel get work
1 item put into "work"
kestrel: make the file to drain into: open there: file exists
1
b
$ seq 5 | kestrel put many; kestrel move many small; echo $?; kestrel get many --all
5 items put into "many"
0 items moved from "many" to "small"
kestrel: put to "small" on …: the queue refused the item: …
6
1
2
3
4
5
$ seq 5 | kestrel put many; kestrel move many other --to-server $ANOTHER; kestrel get other --all --server $ANOTHER | tail -1
5 items put into "many"
5 items moved from "many" to "other"
5
$ kestrel put many 6; kestrel get many --exec 'cat; echo' --wait 1s --server $KESTREL_SERVER,$NOBODY 2> said; grep -e 'ask for' -e done said
1 item put into "many"
6
kestrel: ask for statistics on …connection refused
1 item done
$ kestrel get many --exec cat --server $NOBODY; echo $?
kestrel: ask for statistics on …connection refused; is a server running there? --server says where to look
1
$ kestrel redrive many; echo $?
kestrel: which queue are the dead letters in "many" of? Its name does not end with _dead: say --to QUEUE
Try 'kestrel redrive --help'.
2
$ kestrel redrive many_dead --rate=-1; echo $?
kestrel: --rate is a number above zero, and not -1
Try 'kestrel redrive --help'.
2
$ kestrel redrive many_dead --limit=-1 2>&1 | head -1
kestrel: --limit is a number above zero, and not -1
$ kestrel redrive many_dead --to many_dead 2>&1 | head -1
kestrel: "many_dead" cannot move to itself
$ kestrel redrive many_dead; echo $?
kestrel: there is no queue "many_dead"; 'kestrel ls' lists them all
1
$ kestrel put full_dead 1 2 3; kestrel redrive full_dead --to small; echo $?; kestrel get full_dead --all
3 items put into "full_dead"
0 items moved from "full_dead" to "small"
kestrel: put to "small" on …: the queue refused the item: …
6
1
2
3
$ kestrel put q_dead+c x; kestrel redrive q_dead+c --output json; kestrel get q+c
1 item put into "q_dead+c"
{"from":"q_dead+c","to":"q+c","moved":1}
x
$ kestrel move nothing other; echo $?
kestrel: there is no queue "nothing"; 'kestrel ls' lists them all
1
$ printf '\377\0b' | kestrel put bytes -0; kestrel get bytes --all --output json
2 items put into "bytes"
{"queue":"bytes","server":"…","flags":0,"base64":"/w=="}
{"queue":"bytes","server":"…","flags":0,"data":"b"}
$ head -c 34000000 /dev/zero | tr '\0' x | kestrel put bytes; echo $?
kestrel: item 1 of standard input is larger than 32 MiB, which no server takes; do the pieces end as they should? See --null
1
$ (ulimit -v 6000000; kestrel put bytes --file /dev/zero); echo $?
kestrel: read an item from /dev/zero: it is larger than 32 MiB, which no server takes
6
$ kestrel put bytes --file - < /dev/zero 2>&1 | tail -1
kestrel: read an item from standard input: it is larger than 32 MiB, which no server takes
$ kestrel put bytes --file nothing; kestrel put bytes --flags=-1; kestrel put bytes x --flags 4294967296 2>&1 | head -1
kestrel: read an item from nothing: no such file or directory
kestrel: --flags "-1": want a whole number from 0 to 4294967295
Try 'kestrel put --help'.
kestrel: --flags "4294967296": want a whole number from 0 to 4294967295
$ printf 'put work c\nget\nput work d\n' | kestrel shell; echo $?; kestrel get work --all
1 item put into "work"
kestrel: 'kestrel get' needs a queue
Try 'kestrel get --help'.
kestrel: line 2 failed: get
2
c
$ kestrel shell < /dev/zero; echo $?
kestrel: read commands: a line is longer than 32 MiB
1
$ mkdir -p config/kestrel; ln -s /dev/zero config/kestrel/client.toml; XDG_CONFIG_HOME=$PWD/config kestrel ls; echo $?
kestrel: read the profiles: …client.toml is larger than 1 MiB
1
$ printf 'put "work\n' | kestrel shell; echo $?
kestrel: line 1: the quote " is not closed
2
$ printf '# a remark\nhelp\nhelp peek\nexit\nnonsense\n' | kestrel shell | head -1
    put         put items into a queue
`)
}

// TestEndToEndPeekNothing tests that every way to peek says why there is nothing to show, and exits with the same status.
// None makes a queue.
func TestEndToEndPeekNothing(t *testing.T) {
	p := clitest.Serve(t)
	clitest.Transcript(t, p.Addr, t.TempDir(), `
$ for flags in '' '--from 0' '--from 0 --output json' '--id 1' '--key k'; do kestrel peek nosuch $flags; echo $?; done
kestrel: there is no queue "nosuch"; 'kestrel ls' lists them all
5
kestrel: there is no queue "nosuch"; 'kestrel ls' lists them all
5
kestrel: there is no queue "nosuch"; 'kestrel ls' lists them all
5
kestrel: there is no queue "nosuch"; 'kestrel ls' lists them all
5
kestrel: there is no queue "nosuch"; 'kestrel ls' lists them all
5
$ kestrel ls
QUEUE  ITEMS  BYTES  AGE  WAITING  OPEN  LEASED  DELAYED
$ kestrel put late --delay 1h x; for flags in '' '--from 0'; do kestrel peek late $flags; echo $?; done
1 item put into "late"
kestrel: peek at "late": there is no item in line, and 1 delayed, leased or open: --from 0 --hidden lists them
5
kestrel: list "late": there is no item in line, and 1 delayed, leased or open: --from 0 --hidden lists them
5
`)
}

// TestStatDenied tests what a user hears who may not ask for statistics: which right it is and where it is given. The
// server answers, and nothing says that the queue is not there.
func TestStatDenied(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	addr := rig(t, "CLIENT_ERROR not allowed: stats on all queues\r\n")
	for _, args := range []string{"stat work", "cluster status", "cluster items", "cluster status --set Up --yes"} {
		root := cli.NewRoot()
		root.AddCommand(New()...)
		out, said := clitest.Run(t, root, cli.ExitFailed, strings.Fields(args+" --server "+addr)...)
		clitest.WantText(t, said, "not allowed: stats", "allow of [users.NAME]")
		for _, wrong := range []string{"no server that answers", "not answer", "away"} {
			if strings.Contains(said+out, wrong) {
				t.Errorf("kestrel %s says %s%s", args, out, said)
			}
		}
	}
}

// TestPeekFails tests that a peek that a server refuses asks it once, and says what it was about.
func TestPeekFails(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var asked atomic.Int32
	addr := rigBy(t, func(request string) string {
		if strings.HasPrefix(request, "version") {
			return "VERSION 3.0.0\r\n"
		}
		asked.Add(1)
		return "CLIENT_ERROR not allowed: peek on work\r\n"
	})
	root := cli.NewRoot()
	root.AddCommand(New()...)
	_, said := clitest.Run(t, root, cli.ExitFailed, "peek", "work", "--server", addr)
	clitest.WantText(t, said, `peek at "work" on `+addr, "allow of [users.NAME]")
	if n := asked.Load(); n != 1 {
		t.Errorf("the server was asked %d times, want once", n)
	}
}

// rig runs a server that answers each request with a text, and returns its address.
func rig(t *testing.T, answer string) string {
	return rigBy(t, func(string) string { return answer })
}

// rigBy is rig with an answer for each request.
func rigBy(t *testing.T, answer func(request string) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for buf := make([]byte, 1000); ; {
					n, err := conn.Read(buf)
					if err != nil {
						return
					}
					io.WriteString(conn, answer(string(buf[:n])))
				}
			}()
		}
	}()
	return l.Addr().String()
}

// nobody returns an address where nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// worker starts `kestrel get work --exec COMMAND` and waits until its command has begun, which it
// says by writing a line to the file "begun".
func worker(t *testing.T, p *clitest.Process, command string, flags ...string) (w *running) {
	t.Helper()
	cmd := clitest.Command(t, append([]string{"get", "work", "--server", p.Addr, "--exec", command}, flags...)...)
	fifo := filepath.Join(cmd.Dir, "begun")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	w = &running{t: t, dir: cmd.Dir}
	cmd.Stdout, cmd.Stderr = &w.out, &w.errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.signal = func(s os.Signal) { cmd.Process.Signal(s) }
	w.wait = func() int { cmd.Wait(); return cmd.ProcessState.ExitCode() }
	t.Cleanup(func() { cmd.Process.Kill() })
	f, err := os.Open(fifo) // when somebody writes
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := bufio.NewReader(f).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return w
}

// running is a worker that runs.
type running struct {
	t         *testing.T
	dir       string
	out, errs bytes.Buffer
	signal    func(os.Signal)
	wait      func() int
}

// TestEndToEndExecStops tests that a signal has a worker wait for its command.
func TestEndToEndExecStops(t *testing.T) {
	p := clitest.Serve(t)
	c := p.Dial()
	c.Ask("set work 0 0 1\na\n", "STORED\n")
	w := worker(t, p, "echo > begun; while ! test -e finish; do sleep 0.01; done; cat; echo")
	c.Ask("set work 0 0 1\nb\n", "STORED\n")
	w.signal(syscall.SIGTERM)
	if err := os.WriteFile(filepath.Join(w.dir, "finish"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := w.wait(); code != cli.ExitOK || w.out.String() != "a\n" || w.errs.String() != "1 item done\n" {
		t.Errorf("the worker ends with %d, prints %q and %q", code, &w.out, &w.errs)
	}
	c.Ask("get work\n", "VALUE work 0 1\nb\nEND\n")
	c.Ask("get work\n", "END\n")
}

// TestEndToEndExecKilled tests that a command that outlives its grace is killed, with what it has
// started, and its item delivered again.
func TestEndToEndExecKilled(t *testing.T) {
	p := clitest.Serve(t)
	c := p.Dial()
	c.Ask("set work 0 0 1\na\n", "STORED\n")
	w := worker(t, p, "echo > begun; sleep 1000; sleep 1000", "--grace", "50ms")
	w.signal(syscall.SIGINT)
	if code := w.wait(); code != cli.ExitItems || !strings.Contains(w.errs.String(), `an item of "work" goes back: signal: killed`) {
		t.Errorf("the worker ends with %d and says %q", code, &w.errs)
	}
	c.Ask("get work/t=5000\n", "VALUE work 0 1\na\nEND\n")
}

// TestEndToEndExecParallel tests -P and -n: four commands meet, which they can only do together, and
// eight of nine items are done.
func TestEndToEndExecParallel(t *testing.T) {
	p := clitest.Serve(t)
	clitest.Transcript(t, p.Addr, t.TempDir(), `
$ seq 9 | kestrel put work
9 items put into "work"
$ kestrel get work -P 4 -n 8 --exec 'read n; touch at.$n; while test $(ls at.* | wc -l) -lt 4; do sleep 0.01; done; echo done' | sort | uniq -c
8 items done
8 done
$ kestrel ls work | cut -c 1-12
QUEUE  ITEMS
work       1
`)
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{``, `[]`},
		{`  put  work	a `, `["put" "work" "a"]`},
		{`put "a b" 'c "d' e' f'g ""`, `["put" "a b" "c \"d" "e fg" ""]`},
		{"put wörk a\xffb '\xfe '", `["put" "wörk" "a\xffb" "\xfe "]`}, // an item is any bytes
	} {
		if got, err := split(tt.line); fmt.Sprintf("%q", got) != tt.want || err != nil {
			t.Errorf("split(%q) = %q, %v, want %s", tt.line, got, err, tt.want)
		}
	}
}
