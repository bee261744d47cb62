// Package keyindex finds the items of one queue by their keys. It has a seeded hash of 64 bits for each key, and the
// id of its item. Keys themselves are with the items. [Keys] is what a queue has: an [Index], and the seed of its hashes.
package keyindex
