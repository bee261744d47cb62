// Package diskroom measures how much room a disk has, and says whether that is less than a reserve.
package diskroom
