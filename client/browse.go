package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/client/internal/wire"
	"github.com/kestrelmq/kestrel/codec/memcache"
)

// Listed is an item that was looked at, and what its server knows of it. A zero time stands for none.
type Listed struct {
	Item
	Server     string
	ID         uint64    // names the item in its queue of that server, for ever
	Deliveries int       // how often it was delivered, as far as that counts, a lease under way included
	Added      time.Time // when it was put
	Due        time.Time // when its delay or its lease is over
	Origin     string    // of a dead letter: the queue that gave it up
	Why        string    // of a dead letter: "deliveries" or "rejected"
}

// BrowseOptions say which items are listed. The zero BrowseOptions list the first 100 that are in line.
type BrowseOptions struct {
	From   uint64 // ids from here on
	Limit  int    // so many of each server at most, up to 10,000; zero means 100
	Hidden bool   // also those that are delayed, leased or open
}

// mostListed is how many items a server lists at most.
const mostListed = 10_000

// Browse lists items of a queue, those of one server after those of another, each in the order of their ids, and
// takes none. It needs servers of version 3.
func (c *Client) Browse(ctx context.Context, queue string, opts BrowseOptions) ([]Listed, error) {
	request := memcache.GetOptions{List: true, From: opts.From, Limit: opts.Limit, Hidden: opts.Hidden, Meta: true}
	return c.look(ctx, "list", queue, request, false)
}

// Look returns the item with an id, or with a key, wherever it is in the queue, and leaves it there. It asks one server
// after the other, until one has it. It returns an error that wraps [ErrEmpty] if there is none.
func (c *Client) Look(ctx context.Context, queue string, id uint64, key string) (Listed, error) {
	switch {
	case (id == 0) == (key == ""):
		return Listed{}, wordy("look into", queue, "", errBadWhich)
	case len(key) > 250 || strings.ContainsFunc(key, isNoKey):
		return Listed{}, wordy("look into", queue, "", ErrBadKey)
	}
	found, err := c.look(ctx, "look into", queue, memcache.GetOptions{ID: id, Key: []byte(key), Meta: true}, true)
	if err != nil {
		return Listed{}, err
	}
	return found[0], nil
}

var errBadWhich = errors.New("an item is named by its id or by its key")

// look asks each server for items, or until one has some if one is enough.
func (c *Client) look(
	ctx context.Context, op, queue string, request memcache.GetOptions, one bool,
) (found []Listed, err error) {
	name, err := wire.Name(queue)
	if err != nil {
		return nil, wordy(op, queue, "", err)
	}
	servers := c.readers()
	if len(servers) == 0 {
		return nil, wordy(op, queue, "", ErrNoServers)
	}
	var failed error
	for _, server := range servers {
		more, err := c.lookOn(ctx, server, name, request)
		if err != nil && failed == nil {
			failed = wordy(op, queue, server, err)
		}
		if found = append(found, more...); one && len(found) > 0 {
			return found, nil
		}
	}
	if one && failed == nil {
		failed = wordy(op, queue, "", ErrEmpty)
	}
	return found, failed
}

// lookOn asks one server, which must know what it is asked for: an old one takes an item.
func (c *Client) lookOn(ctx context.Context, server string, name []byte, request memcache.GetOptions) (found []Listed, err error) {
	version, err := c.command(ctx, server, memcache.OpVersion, nil, memcache.KindVersion)
	if err != nil {
		return nil, err
	}
	if err := checkMajor(version); err != nil {
		return nil, err
	}
	most := cmp.Or(max(request.Limit, 0), mostListed)
	var next Listed
	err = c.askList(ctx, server, memcache.AppendGet(nil, name, request), func(r *memcache.Reply) (bool, error) {
		switch {
		case r.Kind == memcache.KindValue && strings.HasSuffix(string(r.Queue), "/meta"):
			return true, next.describe(r.Data)
		case r.Kind == memcache.KindValue:
			key, expires := next.Key, next.Expires
			next.Item, next.Server = itemOf(r), server
			next.Key, next.Expires = key, expires
			found, next = append(found, next), Listed{}
			if len(found) > most {
				return false, errMoreThanAsked
			}
			return true, nil
		case r.Kind == memcache.KindEnd:
			return false, nil
		}
		return false, refusal(r)
	})
	return found, err
}

// describe takes in what a server says of an item.
func (l *Listed) describe(data []byte) error {
	var meta struct {
		ID                  uint64
		Key                 string
		Deliveries          int
		Added, Expires, Due int64 // milliseconds since 1970
		Origin, Why         string
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return ErrProtocol
	}
	*l = Listed{
		Item: Item{Key: meta.Key, Expires: timeOf(meta.Expires)}, ID: meta.ID, Deliveries: meta.Deliveries,
		Added: timeOf(meta.Added), Due: timeOf(meta.Due), Origin: meta.Origin, Why: meta.Why,
	}
	return nil
}

// timeOf returns the time of so many milliseconds since 1970; 0 is none.
func timeOf(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}
