package netloop

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// rekeyer sends records of TLS 1.3 that crypto/tls does not send: requests for new keys, without end.
type rekeyer struct {
	t      *testing.T
	secret []byte
	seal   cipher.AEAD
	iv     []byte
	seq    uint64
	out    []byte
}

// expand is HKDF-Expand-Label of RFC 8446 with an empty context.
func (r *rekeyer) expand(label string, size int) []byte {
	r.t.Helper()
	label = "tls13 " + label
	info := append(binary.BigEndian.AppendUint16(nil, uint16(size)), byte(len(label)))
	info = append(append(info, label...), 0)
	b, err := hkdf.Expand(sha256.New, r.secret, string(info), size)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// use takes a secret for what comes next.
func (r *rekeyer) use(secret []byte) {
	r.t.Helper()
	r.secret, r.seq = secret, 0
	block, err := aes.NewCipher(r.expand("key", 16))
	if err == nil {
		r.seal, err = cipher.NewGCM(block)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.iv = r.expand("iv", 12)
}

// record appends a record with p, of the inner type kind.
func (r *rekeyer) record(kind byte, p string) {
	inner := append([]byte(p), kind)
	header := []byte{23, 3, 3, byte((len(inner) + 16) >> 8), byte(len(inner) + 16)}
	nonce := bytes.Clone(r.iv)
	for i := range 8 {
		nonce[4+i] ^= byte(r.seq >> (56 - 8*i))
	}
	r.seq++
	r.out = r.seal.Seal(append(r.out, header...), nonce, inner, header)
}

// keyUpdate appends a request for new keys of the server, and takes new ones itself.
func (r *rekeyer) keyUpdate() {
	r.record(22, "\x18\x00\x00\x01\x01")
	r.use(r.expand("traffic upd", 32))
}

// dialNarrow connects by a socket that takes little, in small segments: then the server's takes little as well.
func dialNarrow(addr string) (net.Conn, error) {
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var errs [2]error
		err := raw.Control(func(fd uintptr) {
			errs[0] = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 536)
			errs[1] = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10)
		})
		return errors.Join(err, errs[0], errs[1])
	}}
	return d.Dial("tcp", addr)
}

// TestTLSKeyUpdates tests a peer that asks for new keys again and again, and reads none of the answers. It costs no
// more memory than a few of them. One that reads them may ask as often as it likes.
func TestTLSKeyUpdates(t *testing.T) {
	const rounds, updates = 3_000, 12 // more than 16 without data in between crypto/tls refuses
	for _, reads := range []bool{false, true} {
		ts := startTLS(t, DefaultEventLoop, AuthNone)
		var keys bytes.Buffer
		tcp, err := dialNarrow(ts.MemcacheAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		tcp.SetDeadline(time.Now().Add(testDeadline))
		c := tls.Client(tcp, &tls.Config{
			MinVersion: tls.VersionTLS13, KeyLogWriter: &keys, RootCAs: ts.authority.pool, ServerName: "127.0.0.1",
		})
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		if c.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
			t.Skip("this machine prefers another cipher than the test speaks")
		}
		_, line, _ := strings.Cut(keys.String(), "CLIENT_TRAFFIC_SECRET_0 ")
		secret, err := hex.DecodeString(strings.Fields(line)[1])
		if err != nil {
			t.Fatal(err)
		}
		r := &rekeyer{t: t}
		r.use(secret)
		n := rounds
		if reads {
			n /= 10
			go func() {
				for buf := make([]byte, 64<<10); ; {
					if _, err := tcp.Read(buf); err != nil {
						return
					}
				}
			}()
		}
		sent := 0
		for range n {
			r.out = r.out[:0]
			for range updates {
				r.keyUpdate()
			}
			r.record(23, "set q 0 0 0 noreply\r\n\r\n")
			if _, err = tcp.Write(r.out); err != nil {
				break
			}
			sent++
		}
		if reads && err != nil {
			t.Errorf("a peer that reads is cut off in round %d: %v", sent, err)
		}
		if !reads && err == nil {
			t.Errorf("a peer that reads nothing has sent %d requests for keys", sent*updates)
		}
		tcp.Close()
		waitFor(t, func() bool { return ts.Connections() == 0 })
	}
}

// TestTLSOpensInPieces has a loop without time open one record of TLS a turn. The server handles all that clients
// send, also behind a job, and if they send no more.
func TestTLSOpensInPieces(t *testing.T) {
	for _, loop := range EventLoops() {
		ts := startTLS(t, loop, AuthNone)
		d := ts.loops[0]
		d.do(func() { d.opened = func() bool { return true } })
		for _, version := range tlsVersions {
			c := ts.dialTLS(&tls.Config{MinVersion: version, MaxVersion: version})
			var sent, want bytes.Buffer
			large := strings.Repeat("x", largePut+1)
			request := func(line, reply string) {
				sent.WriteString(line)
				want.WriteString(reply)
			}
			for n := range 100 {
				request(fmt.Sprintf("set q 0 0 %d\r\n%s\r\n", n, large[:n]), "STORED\r\n")
			}
			request(fmt.Sprintf("set q 0 0 %d\r\n%s\r\n", len(large), large), "STORED\r\n")
			for n := range 100 {
				request("get q\r\n", fmt.Sprintf("VALUE q 0 %d\r\n%s\r\nEND\r\n", n, large[:n]))
			}
			request("get q\r\n", fmt.Sprintf("VALUE q 0 %d\r\n%s\r\nEND\r\n", len(large), large))
			go func() {
				for p := sent.Bytes(); len(p) > 0; {
					n := min(len(p), 50)
					if len(p) > largePut/2 {
						n = min(len(p), 10_000)
					}
					c.tls.Write(p[:n])
					p = p[n:]
				}
				c.tls.CloseWrite()
			}()
			got, err := io.ReadAll(c.tls)
			if err != nil || !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%s, version %x: %d bytes, want %d: %v", loop, version, len(got), want.Len(), err)
			}
		}
	}
}
