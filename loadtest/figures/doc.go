// Package figures writes, reads and compares the results of load tests. A result is one JSON document, with everything
// that it takes to judge and repeat the test. Beside it are percentile tables, and files for the HdrHistogram tools.
package figures
