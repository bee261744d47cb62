package admin

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/netloop"
)

// pipeListener hands out one end of pipes.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// checkUnknown sends bytes in pieces to a port that asks who its peers are, from a peer that nobody knows. In 10 s at
// most the connection ends; by then the server has taken 64 KiB at most, answered refusals alone, and run nothing.
func checkUnknown(t *testing.T, sent []byte, piece int) {
	synctest.Test(t, func(t *testing.T) {
		users, err := access.NewUsers([]*access.User{grants(t, "alice", "operate", "get *", "stats *")})
		if err != nil {
			t.Fatal(err)
		}
		var ran atomic.Bool
		l := &pipeListener{make(chan net.Conn), make(chan struct{})}
		a, err := New(Options{
			Address: "127.0.0.1:0", Auth: netloop.AuthPassword, Access: access.NewChecker(users, access.Options{}),
			Listen: func(string) (net.Listener, error) { return l, nil }, Profiling: true, GetControls: true,
			Reload: func() error { ran.Store(true); return nil }, RequestShutdown: func() { ran.Store(true) },
		})
		if err != nil {
			t.Fatal(err)
		}
		a.Start()
		client, server := net.Pipe()
		began := time.Now()
		l.conns <- server
		taken := make(chan int)
		go func() {
			total := 0
			for rest := sent; len(rest) > 0; {
				n, err := client.Write(rest[:min(piece, len(rest))])
				total += n
				if rest = rest[n:]; err != nil {
					break
				}
			}
			taken <- total
		}()
		out, err := io.ReadAll(client)
		if took := time.Since(began); err != nil || took > 10*time.Second {
			t.Errorf("the connection ended after %v, %v", took, err)
		}
		if n := <-taken; n > maxUnknown {
			t.Errorf("%d bytes were taken", n)
		}
		for in := bufio.NewReader(strings.NewReader(string(out))); ; {
			resp, err := http.ReadResponse(in, nil)
			if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
				break
			}
			if err != nil || resp.StatusCode < 400 || resp.StatusCode == http.StatusForbidden {
				t.Fatalf("an answer to a stranger: %q, %v", out, err)
			}
			io.Copy(io.Discard, resp.Body)
		}
		if ran.Load() {
			t.Error("a stranger made the server reload, or stop")
		}
		client.Close()
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestUnknownTime tests that a stranger has 10 s in all. They cover the TLS handshake, the request, and the check of a
// password, which waits because earlier ones were wrong.
func TestUnknownTime(t *testing.T) {
	other := httptest.NewTLSServer(nil) // for its certificate
	secured := &tls.Config{Certificates: other.TLS.Certificates}
	other.Close()
	for _, config := range []*tls.Config{nil, secured} {
		synctest.Test(t, func(t *testing.T) {
			users, err := access.NewUsers([]*access.User{grants(t, "alice", "operate")})
			if err != nil {
				t.Fatal(err)
			}
			checker := access.NewChecker(users, access.Options{FreeFailures: 1})
			l := &pipeListener{make(chan net.Conn), make(chan struct{})}
			a, err := New(Options{
				Address: "127.0.0.1:0", Auth: netloop.AuthPassword, TLS: config, Access: checker,
				Listen: func(string) (net.Listener, error) { return l, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			a.Start()
			for range 7 {
				checker.Password(t.Context(), "unix", "alice", []byte("wrong"))
			}
			client, server := net.Pipe()
			began := time.Now()
			l.conns <- server
			if config != nil {
				<-time.After(4 * time.Second)
				client = tls.Client(client, &tls.Config{InsecureSkipVerify: true})
				if err := client.(*tls.Conn).Handshake(); err != nil {
					t.Fatal(err)
				}
			}
			io.WriteString(client, "POST /reload HTTP/1.1\r\n")
			<-time.After(4 * time.Second)
			checker.Password(t.Context(), "unix", "alice", []byte("wrong")) // the next attempt waits 5 s
			io.WriteString(client, "Host: localhost\r\nContent-Length: 9\r\nAuthorization: Basic YWxpY2U6d3Jvbmc=\r\n\r\n")
			io.Copy(io.Discard, client)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("TLS %v: the connection ended after %v", config != nil, took)
			}
			client.Close()
			if err := a.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// unknownSeeds are requests for every command, with everything that a stranger may say of who it is, and garbage.
func unknownSeeds() (seeds []string) {
	for _, row := range rightsRows {
		for _, said := range []string{
			"", "Authorization: Basic YWxpY2U6d3Jvbmc=\r\n", "Authorization: Basic !\r\n", "Authorization: Bearer kestrel_x\r\n",
			"Authorization: Bearer \r\n", "Authorization: Negotiate x\r\n",
		} {
			seeds = append(seeds, row.method+" "+row.path+" HTTP/1.1\r\nHost: localhost\r\n"+said+"\r\n")
		}
	}
	return append(seeds, "", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "get work\r\n", "\x00\x00\x00\x00", "GET / HTTP/1.0\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "POST /shutdown HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
		"POST /reload HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n", "GET /shutdown HTTP/1.1\r\nHost: ",
		"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", "POST /reload HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
}

// TestUnknown sends each of them, whole and byte by byte, and as much as a stranger likes to send.
func TestUnknown(t *testing.T) {
	for _, seed := range unknownSeeds() {
		checkUnknown(t, []byte(seed), 1<<20)
	}
	for _, sent := range []string{
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", strings.Repeat("x", 200_000),
		"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 200_000), strings.Repeat("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 5000),
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n" + strings.Repeat("x", 200_000),
	} {
		for _, piece := range []int{1, 1000, 1 << 20} {
			checkUnknown(t, []byte(sent), piece)
		}
	}
}

// TestUnknownGarbage sends drawn mixtures of requests, pieces of them and garbage.
func TestUnknownGarbage(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	seeds := unknownSeeds()
	for range rounds {
		var b strings.Builder
		for range 1 + r.IntN(8) {
			s := []byte(seeds[r.IntN(len(seeds))])
			switch r.IntN(5) {
			case 0:
				s = s[:r.IntN(len(s)+1)]
			case 1:
				if len(s) > 0 {
					s[r.IntN(len(s))] = byte(r.UintN(256))
				}
			case 2:
				s = []byte(strings.Repeat(string(s), 1+r.IntN(40)))
			}
			b.Write(s)
		}
		if checkUnknown(t, []byte(b.String()), 1+r.IntN(5000)); t.Failed() {
			t.Fatalf("sent %q", b.String())
		}
	}
}

// FuzzUnknown does so with what the fuzzer finds.
func FuzzUnknown(f *testing.F) {
	for _, seed := range unknownSeeds() {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) { checkUnknown(t, sent, 1000) })
}
