//go:build !linux

package processor

import "runtime"

// Yield lets waiting goroutines run.
func Yield() { runtime.Gosched() }
