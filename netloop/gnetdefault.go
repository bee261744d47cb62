//go:build !epoll

package netloop

// DefaultEventLoop is what event loops wait with unless Options say otherwise.
const DefaultEventLoop = EventLoopGnet
