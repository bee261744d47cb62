package zktest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// jar is where Debian's package has ZooKeeper. It names the libraries it needs itself.
const jar = "/usr/share/java/zookeeper.jar"

// patience bounds the wait for ZooKeeper to start, which takes a second or two.
const patience = 60 * time.Second

// Server is a ZooKeeper on this machine. Its methods end the test if they fail.
type Server struct {
	Addr string // host:port

	t      testing.TB
	dir    string
	cmd    *exec.Cmd
	output *bytes.Buffer
}

// need is the environment variable that makes a ZooKeeper which is not installed fail tests.
const need = "KESTREL_NEED_ZOOKEEPER"

// missing skips the test, or fails it if ZooKeeper is needed.
func missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(need) != "" {
		t.Fatal(why + " (" + need + " is set)")
	}
	t.Skip(why)
}

// Start starts a ZooKeeper with an empty directory, and ends it with the test. If ZooKeeper or Java is not installed it
// skips the test, or fails it with KESTREL_NEED_ZOOKEEPER in the environment.
func Start(t testing.TB) *Server {
	t.Helper()
	if _, err := os.Stat(jar); err != nil {
		missing(t, "ZooKeeper is not installed: apt-get install zookeeperd")
	}
	if _, err := exec.LookPath("java"); err != nil {
		missing(t, "Java is not installed, and ZooKeeper needs it")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: ln.Addr().String(), t: t, dir: t.TempDir()}
	ln.Close()
	_, port, _ := net.SplitHostPort(s.Addr)
	config := fmt.Sprintf("tickTime=200\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\n"+
		"admin.enableServer=false\n4lw.commands.whitelist=ruok\nminSessionTimeout=400\nmaxSessionTimeout=60000\n"+
		"forceSync=no\n", filepath.Join(s.dir, "data"), port)
	if err := os.WriteFile(s.config(), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	s.Restart()
	return s
}

func (s *Server) config() string { return filepath.Join(s.dir, "zoo.cfg") }

// Restart starts it again, on the same port with what it has stored, after Kill.
func (s *Server) Restart() {
	s.t.Helper()
	s.output = new(bytes.Buffer)
	s.cmd = exec.Command("java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jar,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", s.config())
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	s.cmd.SysProcAttr = endsWithParent()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for begun := time.Now(); !s.answers(); {
		if time.Since(begun) > patience {
			s.Kill()
			s.t.Fatalf("ZooKeeper does not start: %s", s.output)
		}
	}
}

// answers asks whether it is ready, and waits a moment if it is not.
func (s *Server) answers() bool {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		<-time.After(50 * time.Millisecond)
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprint(conn, "ruok")
	b := make([]byte, 4)
	n, _ := conn.Read(b)
	return string(b[:n]) == "imok"
}

// Kill ends it at once.
func (s *Server) Kill() {
	if s.cmd != nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
		s.cmd = nil
	}
}

// Wipe removes all that it has stored, between Kill and Restart.
func (s *Server) Wipe() {
	s.t.Helper()
	if err := os.RemoveAll(filepath.Join(s.dir, "data")); err != nil {
		s.t.Fatal(err)
	}
}

// Stall stops the process from running, and returns when all of its threads stand; Continue lets it go on.
func (s *Server) Stall() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(s.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || !status.Stopped() {
			s.t.Fatalf("ZooKeeper does not stop: %v, status %#x", err, status)
		}
		return
	}
}

// Continue ends a Stall.
func (s *Server) Continue() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}
