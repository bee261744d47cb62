package ports

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
)

// unixPrefix begins the address of a Unix socket.
const unixPrefix = "unix:"

// maxUnixPath is how long the path of a Unix socket may be, in bytes: sun_path less its NUL.
const maxUnixPath = 103 // that of macOS, which is shorter than the 107 of Linux

// IsUnix reports whether an address is that of a Unix socket, unix:/path.
func IsUnix(address string) bool { return strings.HasPrefix(address, unixPrefix) }

// UnixPath returns the path of a Unix socket's address.
func UnixPath(address string) string { return strings.TrimPrefix(address, unixPrefix) }

// CheckAddress returns what is wrong with an address: it is host:port, with brackets around an IPv6 address,
// or unix:/path. Port 0 takes a free one.
func CheckAddress(address string) error {
	if IsUnix(address) {
		path := UnixPath(address)
		switch {
		case !filepath.IsAbs(path) || strings.ContainsRune(path, 0):
			return fmt.Errorf("%q: write unix: and an absolute path, as in unix:/run/kestrel.sock", address)
		case len(path) > maxUnixPath:
			return fmt.Errorf("%q: the path has %d bytes, and a Unix socket takes %d", address, len(path), maxUnixPath)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q: write host:port, [::1]:port or unix:/path", address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q: the port is a number from 0 to 65535, and 0 takes a free one", address)
	}
	if host == "" {
		return fmt.Errorf("%q: the host is missing; write 0.0.0.0 for every address of this machine", address)
	}
	if _, notIP := netip.ParseAddr(host); strings.ContainsAny(host, "/ ,\x00") || strings.Contains(host, ":") && notIP != nil {
		return fmt.Errorf("%q: %q is no address or name of a host", address, host)
	}
	return nil
}

// ParseNetwork returns the network that s names: 10.0.0.0/8, fd00::/8, or a single address.
func ParseNetwork(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		if addr.Zone() != "" {
			return netip.Prefix{}, errors.New("a network has no zone")
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is no network such as 10.0.0.0/8, and no address", s)
	}
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("%q has bits behind its length; did you mean %s?", s, p.Masked())
	}
	if p.Addr().Is4In6() { // peers have plain IPv4 addresses, see AddrOf
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p, nil
}

// AddrOf returns the address of a peer, and false for one that has none: the peer of a Unix socket.
func AddrOf(peer net.Addr) (netip.Addr, bool) {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	addr, ok := netip.AddrFromSlice(tcp.IP)
	return addr.Unmap(), ok
}

// IsLocal reports whether a peer is on this machine.
func IsLocal(peer net.Addr) bool {
	if _, unix := peer.(*net.UnixAddr); unix {
		return true
	}
	addr, ok := AddrOf(peer)
	return ok && addr.IsLoopback()
}

// OriginOf is who a peer is for limits: its address, or for IPv6 its network, as one
// machine has many addresses there.
func OriginOf(peer net.Addr) string {
	addr, ok := AddrOf(peer)
	if !ok {
		return "unix"
	}
	if addr.Is6() {
		return netip.PrefixFrom(addr, 64).Masked().String()
	}
	return addr.String()
}
