//go:build !faketime

package main

import "time"

const fakeTime = false

func setClock(time.Duration) {}
