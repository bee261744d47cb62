//go:build lab

package main

import "testing"

func TestTiming(t *testing.T) { tryBriefly(t, "timing", 1) }
