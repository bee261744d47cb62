package failingdisk

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// attach mounts a file system of FUSE, and returns the device that its requests come through.
func attach(mount string) (*os.File, error) {
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device.Fd())
	if err := unix.Mount("failing", mount, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		device.Close()
		return nil, fmt.Errorf("%w: mount: %w", ErrUnavailable, err)
	}
	return device, nil
}

func detach(mount string) error { return unix.Unmount(mount, unix.MNT_DETACH) }
