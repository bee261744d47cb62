// Package namehash hashes the names of queues, so that each finds its shard.
//
// A name counts up to its first plus sign: fanout children hash as their parent does. Every request looks for a shard, so
// one pass over eight bytes at a time finds the plus sign and mixes the bytes. A search and hash/maphash apart take
// three times as many instructions. The mixing is that of wyhash (https://github.com/wangyi-fudan/wyhash): the two
// halves of a product. A hash lives as long as the process, and no file holds one.
package namehash
