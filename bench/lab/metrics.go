package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
)

// metricsOf returns what the admin port of a server says of it.
func metricsOf(s *server) (string, error) {
	line, err := s.awaitLog("admin port is open")
	if err != nil {
		return "", err
	}
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Get(fmt.Sprintf("http://%v/metrics", line["address"]))
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	metrics, err := io.ReadAll(reply.Body)
	return string(metrics), err
}

var readBytes = regexp.MustCompile(`(?m)^kestrel_backlog_(mapped|direct)_bytes_total (\S+)$`)

// bytesRead returns how many bytes of backlogs a server has read through maps, and how many past the page cache.
func bytesRead(metrics string) (mapped, direct int64, err error) {
	found := readBytes.FindAllStringSubmatch(metrics, -1)
	for _, m := range found {
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return 0, 0, err
		}
		if m[1] == "mapped" {
			mapped = int64(n)
		} else {
			direct = int64(n)
		}
	}
	if len(found) != 2 {
		return 0, 0, fmt.Errorf("the metrics do not say how backlogs were read: %q", found)
	}
	return mapped, direct, nil
}
