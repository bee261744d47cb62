package failingdisk

import (
	"io"
	"os"
)

func attach(string) (*os.File, error) { return nil, ErrUnavailable }
func detach(string) error             { return ErrUnavailable }

func serve(string, *os.File, io.Reader, io.Writer) error { return ErrUnavailable }
