// Package list links values into doubly linked lists by links that they hold themselves: nothing is
// allocated. What is Ordered finds them by their ids. Nothing here locks: the owner of a List guards it and its values.
package list
