//go:build !linux

package nap

import (
	"errors"
	"time"
)

// alarm is missing here: the runtime's timers must do.
type alarm struct{}

func (alarm) wait(time.Duration) error { return errors.ErrUnsupported }

func (alarm) close() {}
