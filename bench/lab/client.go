package main

import (
	"fmt"
	"io"
	"net"
	"time"
)

// client is a connection that speaks one protocol. It belongs to one goroutine.
type client struct {
	conn    net.Conn
	speaker speaker
	in      []byte // received and not decoded yet
}

// dial connects to a server.
func dial(s *server, protocol string) (*client, error) {
	conn, err := net.DialTimeout("tcp", s.addr[protocol], patience)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(patience))
	return &client{conn: conn, speaker: speakers()[protocol]}, nil
}

// send sends requests, in one piece.
func (c *client) send(requests []request, body func(int) []byte) error {
	var out []byte
	for _, r := range requests {
		out = c.speaker.encode(out, r, body)
	}
	c.conn.SetDeadline(time.Now().Add(patience))
	_, err := c.conn.Write(out)
	return err
}

// receive waits for the reply to r. What it returns is good until the next call.
func (c *client) receive(r request) (answer, error) {
	for {
		if len(c.in) > 0 {
			a, n, err := c.speaker.decode(c.in, r)
			if err != nil {
				return a, &garbledError{r, err}
			}
			if n > 0 {
				c.in = c.in[n:]
				return a, nil
			}
		}
		if err := c.fill(); err != nil {
			return answer{}, err
		}
	}
}

// fill reads what has arrived, and waits if nothing has.
func (c *client) fill() error {
	buf := make([]byte, 64<<10)
	n, err := c.conn.Read(buf)
	c.in = append(c.in, buf[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

// ask sends one request and waits for its reply.
func (c *client) ask(r request, body func(int) []byte) (answer, error) {
	if err := c.send([]request{r}, body); err != nil {
		return answer{}, err
	}
	return c.receive(r)
}

// end says goodbye on a memcache connection and waits until the server has closed it: then its open
// reads are back in their queues.
func (c *client) end() error {
	defer c.conn.Close()
	if _, err := io.WriteString(c.conn, "quit\r\n"); err != nil {
		return err
	}
	if rest, err := io.ReadAll(c.conn); err != nil || len(rest)+len(c.in) > 0 {
		return fmt.Errorf("%d bytes behind the last reply, %w", len(rest)+len(c.in), err)
	}
	return nil
}

// garbledError is a reply that is none.
type garbledError struct {
	request request
	err     error
}

func (e *garbledError) Error() string { return fmt.Sprintf("reply to %v: %v", e.request, e.err) }
func (e *garbledError) Unwrap() error { return e.err }
