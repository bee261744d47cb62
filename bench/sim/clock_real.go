//go:build !faketime

package main

const fakeTime = false
