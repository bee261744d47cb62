// Package retain says which files of an engine a backup still needs, and copies their bytes.
package retain
