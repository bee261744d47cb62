// Package sample looks at servers: what their queues hold at one moment, all servers together, and
// how quickly that changed since another.
package sample
