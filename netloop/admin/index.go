package admin

import (
	"html"
	"io"
	"net/http"
)

// index answers with a page that says what there is.
func (s *Server) index(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	send(w, http.StatusOK, typeHTML, func(w io.Writer) error {
		_, err := io.WriteString(w, "<!doctype html><meta charset=utf-8><title>"+
			html.EscapeString(s.opts.Build.Name)+"</title>"+
			"<style>body{font:16px/1.5 sans-serif;margin:2em}td{padding-right:2em}</style>"+
			"<h1>"+html.EscapeString(s.opts.Build.Name+" "+s.opts.Build.Version)+"</h1>"+indexTable)
		return err
	})
}

const indexTable = `<table>
<tr><td><a href="/readyz">/readyz</a><td>whether clients should come, and how far a replay is
<tr><td><a href="/healthz">/healthz</a><td>whether the process does its work
<tr><td><a href="/stats.txt">/stats.txt</a> <a href="/stats.json">.json</a><td>counters, gauges, labels, metrics
<tr><td><a href="/histograms.txt">/histograms.txt</a> <a href="/histograms.json">.json</a><td>whole distributions; ?queue=NAME, ?name=METRIC, .hgrm
<tr><td><a href="/connections.txt">/connections.txt</a> <a href="/connections.json">.json</a><td>who is connected; ?queue=NAME, ?order=open|age|idle|requests|received|sent|unread
<tr><td><a href="/metrics">/metrics</a><td>everything for Prometheus; ?queues=REGEX
<tr><td><a href="/status.txt">/status.txt</a> <a href="/status.json">.json</a><td>what clients may do
<tr><td><a href="/server_info.txt">/server_info.txt</a> <a href="/server_info.json">.json</a><td>what is running
<tr><td><a href="/ping.txt">/ping.txt</a><td>pong
</table>
<p>From this machine only: /threads, /logging, /sniff?seconds=N. Likewise, and with POST: /reload, /shutdown, /quiesce, /gc, /backup,
/status?to=STATUS, /logging?level=LEVEL, /connections?end=NUMBER, /connections?return_reads=NUMBER.
`
