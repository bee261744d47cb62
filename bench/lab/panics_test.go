//go:build lab

package main

import "testing"

func TestPanics(t *testing.T) { tryBriefly(t, "panics", 1) }
