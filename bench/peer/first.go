package peer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
)

// firstPoll is how long First waits after an attempt that failed.
const firstPoll = time.Millisecond

// First waits until a server that has been started again hands out an item of Queue. It gives the
// item back, so that the item stays at the head. It tries again until the context ends, or until
// alive, which may be nil, returns an error.
func (s Server) First(ctx context.Context, addr string, alive func() error) error {
	poll := time.NewTicker(firstPoll)
	defer poll.Stop()
	for {
		err := s.tryFirst(addr)
		if err == nil {
			return nil
		}
		if alive != nil {
			if err := alive(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: no item: %w", ctx.Err(), err)
		case <-poll.C:
		}
	}
}

// tryFirst connects and gets an item, or says why there is none.
func (s Server) tryFirst(addr string) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	x := exchange{c, bufio.NewReader(c)}
	switch s.Protocol {
	case loadtest.Memcache:
		return x.memcache()
	case loadtest.RedisList:
		return x.redis()
	case loadtest.Beanstalk:
		return x.beanstalk()
	case loadtest.JetStream:
		return x.jetStream()
	}
	return fmt.Errorf("no way to get one item over %v", s.Protocol)
}

// exchange is a connection that is asked one thing after the other.
type exchange struct {
	net.Conn
	in *bufio.Reader
}

// ask sends a request and returns the words of the line that answers it, the first of which must be
// the one wanted.
func (x exchange) ask(request, want string) ([]string, error) {
	if _, err := io.WriteString(x, request); err != nil {
		return nil, err
	}
	line, err := x.in.ReadString('\n')
	words := strings.Fields(line)
	if err == nil && (len(words) == 0 || !strings.HasPrefix(words[0], want)) {
		err = fmt.Errorf("answer %q to %q, want %s", line, request, want)
	}
	return words, err
}

// item reads an item whose size is in the last of the words, and the end of its line.
func (x exchange) item(words []string) error {
	size, err := strconv.Atoi(strings.TrimPrefix(words[len(words)-1], "$"))
	if err != nil || size < 0 {
		return fmt.Errorf("%q announces no item", words)
	}
	_, err = x.in.Discard(size + len("\r\n"))
	return err
}

// memcache opens a read and aborts it.
func (x exchange) memcache() error {
	words, err := x.ask("get "+Queue+"/open\r\n", "VALUE")
	if err != nil {
		return err
	}
	if err := x.item(words); err != nil {
		return err
	}
	if _, err := x.ask("", "END"); err != nil {
		return err
	}
	_, err = x.ask("get "+Queue+"/abort\r\n", "END")
	return err
}

// redis reads the item that is next to be taken.
func (x exchange) redis() error {
	words, err := x.ask("LINDEX "+Queue+" -1\r\n", "$")
	if err != nil {
		return err
	}
	return x.item(words)
}

// beanstalk reserves a job and releases it.
func (x exchange) beanstalk() error {
	if _, err := x.ask("watch "+Queue+"\r\n", "WATCHING"); err != nil {
		return err
	}
	words, err := x.ask("reserve-with-timeout 0\r\n", "RESERVED")
	if err != nil {
		return err
	}
	if err := x.item(words); err != nil {
		return err
	}
	_, err = x.ask("release "+words[1]+" 0 0\r\n", "RELEASED")
	return err
}

// jetStream has the consumer deliver a message, and refuses it.
func (x exchange) jetStream() error {
	const inbox = "_INBOX.first"
	const pull = `{"batch":1,"expires":1000000000}`
	if _, err := x.ask("", "INFO"); err != nil {
		return err
	}
	words, err := x.ask(fmt.Sprintf("CONNECT {\"verbose\":false}\r\nSUB %s 1\r\n"+
		"PUB $JS.API.CONSUMER.MSG.NEXT.%s.%s %s %d\r\n%s\r\n", inbox, Queue,
		loadtest.JetStreamConsumer, inbox, len(pull), pull), "MSG")
	if err != nil {
		return err
	}
	if len(words) != 5 {
		return fmt.Errorf("%q is no message to be acknowledged", words)
	}
	if err := x.item(words); err != nil {
		return err
	}
	_, err = x.ask("PUB "+words[3]+" 4\r\n-NAK\r\nPING\r\n", "PONG")
	return err
}
