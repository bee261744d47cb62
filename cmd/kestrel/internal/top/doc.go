// Package top is the screen of `kestrel top`: queues by rate, backlog and age, to be sorted, filtered
// and looked into. It takes samples, and draws; what keys do is in keys.go.
package top
