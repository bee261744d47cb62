package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// This file asks, as an outsider would, whether the time of a refusal says which of user and password was wrong. Each
// attempt comes from an address of its own. Each name is tried no more often than is free, so that nothing is slowed
// down. Hashes are as cheap as can be: what differs is not hidden behind the time of a hash that costs more.

const (
	// maxRankScore is how far the ranks of two kinds of attempts may be apart, in standard deviations. Chance exceeds it
	// once in 150,000 comparisons.
	maxRankScore = 4.5
	// triesOfName is how often an attempt may fail as a user before that has consequences.
	triesOfName = 3
	// attemptsEach is how many attempts of each kind a cycle makes.
	attemptsEach = 1500

	// cheapHash is the hash of the password "right".
	cheapHash = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$P3OLBQw3O3GiY9hpX8wpK8qO6gQccIdDXnlkdzKceqU"
)

// attemptKind is what is wrong with an attempt to say who one is. All get the same answer.
type attemptKind int

const (
	noSuchUser attemptKind = iota
	wrongPassword
	wrongAfterRight // of a user who has connected before
	noPassword      // the user has a certificate only
	attemptKinds
)

func (k attemptKind) String() string {
	return [...]string{"no such user", "wrong password", "wrong password of a user who has connected", "a user without password"}[k]
}

// timingTrial times attempts of every kind, in drawn order, and compares each kind with that of no such user. Cycles add
// up: their scores, of servers of their own, are summed and divided by the root of their number.
func timingTrial(ctx context.Context, t *trial) error {
	var sums [attemptKinds]float64
	for cycle := 0; t.more(ctx, cycle); cycle++ {
		dir := filepath.Join(t.dir, fmt.Sprint("timing-", cycle))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		times, err := timeAttempts(ctx, t, cycle, dir)
		if err != nil {
			return err
		}
		for kind := range times {
			slices.Sort(times[kind])
		}
		unknown := times[noSuchUser]
		for kind := wrongPassword; kind < attemptKinds; kind++ {
			sums[kind] += mannWhitney(times[kind], unknown)
			z := sums[kind] / math.Sqrt(float64(cycle+1))
			apart := quantile(times[kind], 0.5) - quantile(unknown, 0.5)
			fmt.Fprintf(t.log, "timing: %v, beside %v: z %+.2f; medians %.1f and %.1f µs, %+.2f µs apart\n", kind, noSuchUser, z,
				quantile(times[kind], 0.5), quantile(unknown, 0.5), apart)
			if z > maxRankScore || z < -maxRankScore {
				t.violate("time tells %v from %v: z %+.2f in %d attempts of each, the last medians %+.2f µs apart", kind, noSuchUser, z,
					len(unknown)*(cycle+1), apart)
			}
			t.counts.trials.Add(1)
		}
	}
	return nil
}

// timeAttempts returns how many µs each attempt took, by its kind.
func timeAttempts(ctx context.Context, t *trial, cycle int, dir string) (times [attemptKinds][]float64, err error) {
	rng := t.rng(cycle)
	const each = (attemptsEach + triesOfName - 1) / triesOfName
	// Names of all kinds are mixed, so that nothing but the kind distinguishes them.
	names, config := [attemptKinds][]string{}, strings.Builder{}
	config.WriteString("[[listener]]\nprotocol = \"memcache\"\naddress = \"127.0.0.1:0\"\nauth = \"password\"\n")
	for i, n := range rng.Perm(each * int(attemptKinds)) {
		kind, name := attemptKind(i%int(attemptKinds)), fmt.Sprintf("user%05d", n)
		names[kind] = append(names[kind], name)
		switch kind {
		case wrongPassword, wrongAfterRight:
			fmt.Fprintf(&config, "[users.%s]\npassword = %q\nallow = [\"get work\"]\n", name, cheapHash)
		case noPassword:
			fmt.Fprintf(&config, "[users.%s]\ncertificates = [\"CN=%s\"]\nallow = [\"get work\"]\n", name, name)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "lab.toml"), []byte(config.String()), 0o600); err != nil {
		return times, err
	}
	s, err := launch{binary: t.binary, dir: dir, args: []string{"--config", "lab.toml"}}.start(ctx)
	if err != nil {
		return times, err
	}
	defer s.kill()
	outside := outsider{addr: s.addr["memcache"]}
	for _, name := range names[wrongAfterRight] {
		if _, answer, err := outside.attempt(name, "right"); err != nil || answer != "STORED\r\n" {
			return times, fmt.Errorf("a right password: %q, %v", answer, err)
		}
	}
	for range triesOfName {
		order := rng.Perm(each * int(attemptKinds))
		for _, n := range order {
			if ctx.Err() != nil {
				return times, ctx.Err()
			}
			kind := attemptKind(n % int(attemptKinds))
			took, answer, err := outside.attempt(names[kind][n/int(attemptKinds)], "wrong")
			if err != nil {
				return times, err
			}
			if answer != "CLIENT_ERROR authentication failure\r\n" {
				t.violate("%v is answered %q", kind, answer)
			}
			times[kind] = append(times[kind], float64(took)/float64(time.Microsecond))
			t.counts.refusals.Add(1)
		}
	}
	return times, nil
}

// outsider connects to a server, each time from another address of this machine.
type outsider struct {
	addr string
	seen int // addresses used
}

// attempt says who it is, and returns how long the answer took. The connection is in its event loop before that.
func (o *outsider) attempt(name, password string) (took time.Duration, answer string, err error) {
	o.seen++
	from := net.IPv4(127, byte(1+o.seen>>16), byte(o.seen>>8), byte(o.seen))
	d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: from}}
	conn, err := d.Dial("tcp", o.addr)
	if err != nil {
		return 0, "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	buf := make([]byte, 100)
	if _, err = conn.Write([]byte("version\r\n")); err != nil {
		return 0, "", err
	}
	if n, err := conn.Read(buf); err != nil || string(buf[:n]) != "CLIENT_ERROR unauthenticated\r\n" {
		return 0, "", fmt.Errorf("a stranger gets %q, %w", buf[:n], err)
	}
	said := fmt.Sprintf("%s %s", name, password)
	request := fmt.Appendf(nil, "set x 0 0 %d\r\n%s\r\n", len(said), said)
	sent := time.Now()
	if _, err = conn.Write(request); err != nil {
		return 0, "", err
	}
	n, err := conn.Read(buf)
	return time.Since(sent), string(buf[:n]), err
}
