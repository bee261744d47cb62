package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// askWait bounds what is asked of a server outside a measurement.
const askWait = 5 * time.Second

// Start starts a server in a fresh directory under o.Dir, on so many processors, and waits until it
// answers at the address returned. Prepare comes next. The caller must have locked its thread, on
// whose life the server's depends, and must call Kill.
func (o *Setup) Start(ctx context.Context, s Server, cpus ...int) (*spawn.Process, string, error) {
	port, err := spawn.FreePort()
	if err != nil {
		return nil, "", fmt.Errorf("start %s: %w", s.Name, err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := spawn.Start(ctx, spawn.Options{
		Name:    s.Name,
		Program: s.Program,
		Args:    func(dir string) ([]string, error) { return s.args(o, s, dir, port) },
		Dir:     o.Dir,
		CPUs:    cpus,
		Ready:   func() error { return probe(addr, s.Protocol) },
	})
	return p, addr, err
}

// probe sends a request that every server of the protocol answers, and checks how that begins.
func probe(addr string, protocol loadtest.Protocol) error {
	request, reply := "version\r\n", "VERSION"
	switch protocol {
	case loadtest.RedisList, loadtest.RedisString:
		request, reply = "PING\r\n", "+PONG"
	case loadtest.Beanstalk:
		request, reply = "list-tube-used\r\n", "USING"
	case loadtest.JetStream:
		request, reply = "", "INFO"
	case loadtest.NSQ:
		request, reply = "  V2nonsense\n", "\x00\x00\x00"
	}
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		return err
	}
	got := make([]byte, len(reply))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if string(got) != reply {
		return fmt.Errorf("answer %q to %q, want %q", got, request, reply)
	}
	return nil
}

// dial connects with a deadline for all that follows.
func dial(addr string) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", addr, askWait)
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(askWait)); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Prepare creates what a server needs before it takes items: JetStream its stream and its consumer.
func (s Server) Prepare(addr string) error {
	if s.Protocol != loadtest.JetStream {
		return nil
	}
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	storage := "file"
	if s.Class == Memory {
		storage = "memory"
	}
	in := bufio.NewReader(c)
	if _, err := io.WriteString(c,
		"CONNECT {\"verbose\":false}\r\nSUB _INBOX.prepare 1\r\n"); err != nil {
		return err
	}
	if err := askJetStream(c, in, "$JS.API.STREAM.CREATE."+Queue, map[string]any{
		"name": Queue, "subjects": []string{Queue}, "storage": storage, "retention": "workqueue",
		"num_replicas": 1, "discard": "new", "max_consumers": -1, "max_msgs": -1, "max_bytes": -1,
	}); err != nil {
		return err
	}
	return askJetStream(c, in,
		"$JS.API.CONSUMER.CREATE."+Queue+"."+loadtest.JetStreamConsumer, map[string]any{
			"stream_name": Queue,
			"config": map[string]any{
				"durable_name": loadtest.JetStreamConsumer, "name": loadtest.JetStreamConsumer,
				"deliver_policy": "all", "ack_policy": "explicit", "replay_policy": "instant",
				"ack_wait": int64(time.Minute), "max_ack_pending": -1, "max_waiting": 20_000,
			},
		})
}

// askJetStream makes a request of JetStream's API.
func askJetStream(c net.Conn, in *bufio.Reader, subject string, ask any) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c, "PUB %s _INBOX.prepare %d\r\n%s\r\n", subject, len(body),
		body); err != nil {
		return err
	}
	for {
		line, err := in.ReadString('\n')
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(line, "-ERR"):
			return errors.New(strings.TrimSpace(line))
		case !strings.HasPrefix(line, "MSG "):
			continue // INFO, PING
		}
		answer, err := in.ReadString('\n')
		switch {
		case err != nil:
			return err
		case strings.Contains(answer, `"error":`):
			return fmt.Errorf("%s answered %s", subject, strings.TrimSpace(answer))
		}
		return nil
	}
}
