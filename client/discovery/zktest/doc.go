// Package zktest runs a real ZooKeeper for tests: the one of Debian's package zookeeperd.
package zktest
