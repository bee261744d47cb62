package netloop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apache "github.com/apache/thrift/lib/go/thrift"

	"github.com/kestrelmq/kestrel/engine"
)

// apacheArgs are the arguments of a call, as code that the Thrift compiler generates would write
// them.
type apacheArgs func(ctx context.Context, p apache.TProtocol) error

func (a apacheArgs) Write(ctx context.Context, p apache.TProtocol) error {
	if err := p.WriteStructBegin(ctx, "args"); err != nil {
		return err
	}
	if err := a(ctx, p); err != nil {
		return err
	}
	if err := p.WriteFieldStop(ctx); err != nil {
		return err
	}
	return p.WriteStructEnd(ctx)
}

func (a apacheArgs) Read(context.Context, apache.TProtocol) error { panic("arguments are not read") }

// apacheResult reads field 0 of a result with the function.
type apacheResult func(ctx context.Context, p apache.TProtocol) error

func (r apacheResult) Write(context.Context, apache.TProtocol) error {
	panic("results are not written")
}

func (r apacheResult) Read(ctx context.Context, p apache.TProtocol) error {
	return readApacheStruct(ctx, p, func(int16) error { return r(ctx, p) })
}

func readApacheStruct(ctx context.Context, p apache.TProtocol, field func(id int16) error) error {
	if _, err := p.ReadStructBegin(ctx); err != nil {
		return err
	}
	for {
		_, kind, id, err := p.ReadFieldBegin(ctx)
		if err != nil {
			return err
		}
		if kind == apache.STOP {
			return p.ReadStructEnd(ctx)
		}
		if err := field(id); err != nil {
			return err
		}
	}
}

// apacheClient is a client of the Apache library on a framed binary connection.
type apacheClient struct {
	t *testing.T
	*apache.TStandardClient
}

func dialApache(t *testing.T, s *Server) *apacheClient {
	t.Helper()
	conf := &apache.TConfiguration{ConnectTimeout: testDeadline, SocketTimeout: testDeadline}
	transport := apache.NewTFramedTransportConf(apache.NewTSocketConf(s.ThriftAddr().String(), conf), conf)
	if err := transport.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { transport.Close() })
	p := apache.NewTBinaryProtocolConf(transport, conf)
	return &apacheClient{t, apache.NewTStandardClient(p, p)}
}

func (c *apacheClient) count(method string, args apacheArgs) (n int32) {
	c.t.Helper()
	_, err := c.Call(c.t.Context(), method, args, apacheResult(func(ctx context.Context, p apache.TProtocol) error {
		var err error
		n, err = p.ReadI32(ctx)
		return err
	}))
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	return n
}

func writeApacheQueue(ctx context.Context, p apache.TProtocol) error {
	p.WriteFieldBegin(ctx, "queue_name", apache.STRING, 1)
	return p.WriteString(ctx, "work")
}

func (c *apacheClient) put(items ...string) int32 {
	c.t.Helper()
	return c.count("put", func(ctx context.Context, p apache.TProtocol) error {
		writeApacheQueue(ctx, p)
		p.WriteFieldBegin(ctx, "items", apache.LIST, 2)
		p.WriteListBegin(ctx, apache.STRING, len(items))
		for _, item := range items {
			p.WriteBinary(ctx, []byte(item))
		}
		return p.WriteListEnd(ctx)
	})
}

func (c *apacheClient) get(maxItems, wait, autoAbort int32) (items []string, ids []int64) {
	c.t.Helper()
	args := apacheArgs(func(ctx context.Context, p apache.TProtocol) error {
		writeApacheQueue(ctx, p)
		for i, v := range []int32{maxItems, wait, autoAbort} {
			p.WriteFieldBegin(ctx, "", apache.I32, int16(i+2))
			p.WriteI32(ctx, v)
		}
		return nil
	})
	result := apacheResult(func(ctx context.Context, p apache.TProtocol) error {
		_, n, err := p.ReadListBegin(ctx)
		for range n {
			if err == nil {
				err = readApacheStruct(ctx, p, func(id int16) error {
					if id == 1 {
						data, err := p.ReadBinary(ctx)
						items = append(items, string(data))
						return err
					}
					if id == 3 {
						n, err := p.ReadI32(ctx)
						items[len(items)-1] += fmt.Sprintf(" for the %d. time", n)
						return err
					}
					id64, err := p.ReadI64(ctx)
					ids = append(ids, id64)
					return err
				})
			}
		}
		return err
	})
	if _, err := c.Call(c.t.Context(), "get", args, result); err != nil {
		c.t.Fatalf("get: %v", err)
	}
	return items, ids
}

func (c *apacheClient) end(method string, ids []int64) int32 {
	c.t.Helper()
	return c.count(method, func(ctx context.Context, p apache.TProtocol) error {
		writeApacheQueue(ctx, p)
		p.WriteFieldBegin(ctx, "ids", apache.SET, 2)
		p.WriteSetBegin(ctx, apache.I64, len(ids))
		for _, id := range ids {
			p.WriteI64(ctx, id)
		}
		return p.WriteSetEnd(ctx)
	})
}

// touch returns when the read comes back.
func (c *apacheClient) touch(id int64, autoAbort int32) (due int64) {
	c.t.Helper()
	_, err := c.Call(c.t.Context(), "touch", apacheArgs(func(ctx context.Context, p apache.TProtocol) error {
		writeApacheQueue(ctx, p)
		p.WriteFieldBegin(ctx, "id", apache.I64, 2)
		p.WriteI64(ctx, id)
		p.WriteFieldBegin(ctx, "auto_abort_msec", apache.I32, 3)
		return p.WriteI32(ctx, autoAbort)
	}), apacheResult(func(ctx context.Context, p apache.TProtocol) error {
		var err error
		due, err = p.ReadI64(ctx)
		return err
	}))
	if err != nil {
		c.t.Fatalf("touch: %v", err)
	}
	return due
}

// The Apache library for Go uses leases over a real connection.
func TestApacheClientLeases(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		s := startServer(t, eventLoop, Options{MaxOpenReads: 10, Thrift: "127.0.0.1:0"}, engine.DefaultQueueOptions())
		c, other := dialApache(t, s), dialApache(t, s)
		c.put("a", "b")
		_, ids := c.get(2, 0, 60_000)
		if due := time.UnixMilli(other.touch(ids[0], 90_000)); time.Until(due) < 80*time.Second {
			t.Errorf("touch = %v, want about 90 s from now", due)
		}
		if due := other.touch(ids[0]+1, 90_000); due != 0 {
			t.Errorf("touch of no read = %d, want 0", due)
		}
		if n := other.end("abort", ids[:1]) + other.end("release", ids[1:]) + other.end("release", ids); n != 2 {
			t.Errorf("abort and release = %d, want 2", n)
		}
		items, ids := c.get(2, 0, 60_000)
		if got := strings.Join(items, ", "); got != "a for the 2. time, b" {
			t.Errorf("then get = %s", got)
		}
		if n := c.end("reject", ids); n != 2 {
			t.Errorf("reject = %d, want 2", n)
		}
		if q, _ := s.opts.Engine.QueueStats(engine.Now(), []byte("work_dead")); q.Items != 2 {
			t.Errorf("%d dead letters, want 2", q.Items)
		}
	})
}

// The Apache library for Go, over a real connection, is served like any other client.
func TestApacheClient(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		s := startServer(t, eventLoop, Options{MaxOpenReads: 10, Thrift: "127.0.0.1:0"}, engine.DefaultQueueOptions())
		c := dialApache(t, s)
		if n := c.put("a", "b", "", "d"); n != 4 {
			t.Errorf("put = %d, want 4", n)
		}
		items, ids := c.get(2, 0, 60_000)
		if strings.Join(items, ",") != "a,b" || len(ids) != 2 || ids[0] <= 0 {
			t.Errorf("reliable get = %q, ids %d", items, ids)
		}
		if n := c.end("confirm", ids[:1]) + c.end("abort", ids[1:]); n != 2 {
			t.Errorf("confirm and abort = %d, want 2", n)
		}
		if items, _ := c.get(10, 50, 0); strings.Join(items, ",") != "b,,d" {
			t.Errorf("timed get = %q, want b, an empty item, and d", items)
		}
		none := apacheArgs(func(context.Context, apache.TProtocol) error { return nil })
		_, err := c.Call(t.Context(), "get", none, apacheResult(nil))
		if refused, ok := err.(apache.TApplicationException); !ok || refused.TypeId() != apache.INTERNAL_ERROR {
			t.Errorf("get without a queue = %v, want an application exception", err)
		}
		if n := c.put("e"); n != 1 {
			t.Errorf("put after an exception = %d, want 1", n)
		}
	})
}
