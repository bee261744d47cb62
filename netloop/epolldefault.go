//go:build epoll

package netloop

// DefaultEventLoop is EventLoopEpoll with the build tag epoll. So tests that start servers in any way try both.
const DefaultEventLoop = EventLoopEpoll
