package main

import (
	"strings"

	"github.com/kestrelmq/kestrel/bench/peer"
	"github.com/kestrelmq/kestrel/loadtest"
)

// class is what a server must have done with a put before it answers.
type class = peer.Class

const (
	memory     = peer.Memory
	pageCache  = peer.PageCache
	syncAlways = peer.SyncAlways
)

// server is a server and the part that it takes.
type server struct {
	peer.Server
	byDefault bool    // runs unless -servers says otherwise
	full      bool    // takes part in all cases of its class, not only in those with 16 connections
	keeps     bool    // a get leaves the item, so that one item is enough for any number of gets
	speed     float64 // gets of a case, as a share of kestrel's, so that filling does not take minutes
}

// servers returns all there are. The first of a class is its reference.
func servers() (list []server) {
	for _, p := range peer.All() {
		s := server{Server: p, byDefault: true, full: true, speed: 1}
		switch s.Protocol {
		case loadtest.Beanstalk:
			s.full, s.speed = false, 0.25
		case loadtest.JetStream:
			s.full, s.speed = false, 0.1
		case loadtest.NSQ:
			s.full = false
		}
		switch s.Program {
		case "memcached":
			s.keeps = true
			s.full = s.Class != memory
		}
		switch s.Name {
		case "memcached-meta", "redis-no", "kestrel-epoll", "kestrel-before", "kestrel-always-before":
			s.byDefault = false
		}
		list = append(list, s)
	}
	return list
}

// serverNames lists the servers, those that run by default with an asterisk.
func serverNames() string {
	var names []string
	for _, s := range servers() {
		if s.byDefault {
			names = append(names, s.Name+"*")
		} else {
			names = append(names, s.Name)
		}
	}
	return strings.Join(names, " ")
}

// findServer returns the row of a name.
func findServer(name string) (server, bool) {
	for _, s := range servers() {
		if s.Name == name {
			return s, true
		}
	}
	return server{}, false
}

// serverCPUs returns the processors of a server: one, or all of them for the comparison of event
// loops. Then only the loops differ.
func (o *options) serverCPUs(s server) []int {
	if s.Loops > 0 {
		return append([]int{o.serverCPU}, o.loadCPUs...)
	}
	return []int{o.serverCPU}
}
