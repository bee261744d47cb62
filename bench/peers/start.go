package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// start starts a server in a fresh directory under o.dir, on o.serverCPU, and waits until it
// answers at the address returned. The caller must have locked its thread, on whose life the
// server's depends, and must call Kill.
func start(ctx context.Context, o *options, s server) (*spawn.Process, string, error) {
	port, err := spawn.FreePort()
	if err != nil {
		return nil, "", fmt.Errorf("start %s: %w", s.name, err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := spawn.Start(ctx, spawn.Options{
		Name:    s.name,
		Program: s.program,
		Args:    func(dir string) ([]string, error) { return s.args(o, s, dir, port) },
		Dir:     o.dir,
		CPUs:    []int{o.serverCPU},
		Ready:   func() error { return probe(addr, s.protocol) },
	})
	return p, addr, err
}

// probe sends a request that every server of the protocol answers with one line.
func probe(addr string, protocol loadtest.Protocol) error {
	request, reply := "version\r\n", "VERSION"
	if protocol == loadtest.RedisList || protocol == loadtest.RedisString {
		request, reply = "PING\r\n", "+PONG"
	}
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
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
