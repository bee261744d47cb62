// Package figures is what is kept of a load test. That is one JSON document with everything needed to judge and to
// repeat it, percentile tables, and the files that the HdrHistogram tools read. It also compares runs.
package figures
