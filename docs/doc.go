// Package docs holds the tree to its documents. Its tests fail if a document names what does not exist, or if the code
// leaves the picture that ARCHITECTURE.md draws.
package docs
