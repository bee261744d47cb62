package admin

import (
	"net/http"

	"github.com/kestrelmq/kestrel/access"
)

// commands returns what can be asked for.
func commands() map[string]command {
	return map[string]command{
		// Those of the original.
		"ping":        {run: ping, free: true},
		"stats":       {run: statistics, costly: true, needs: access.Stats},
		"server_info": {run: serverInfo, free: true},
		"shutdown":    {run: shutdown, local: true, changes: always, needs: access.Operate},
		"quiesce":     {run: shutdown, local: true, changes: always, needs: access.Operate},
		"reload":      {run: reload, local: true, changes: always, needs: access.Operate},
		"threads":     {run: threads, local: true, costly: true, needs: access.Operate},
		"gc":          {run: collectGarbage, local: true, changes: always, costly: true, needs: access.Operate},
		"logging":     {run: logging, local: true, changes: setsLevel, needs: access.Operate},
		// Ours.
		"histograms": {run: histograms, costly: true, methods: readOnly(), needs: access.Stats},
		"metrics":    {run: prometheusMetrics, costly: true, methods: readOnly(), needs: access.Stats},
		"backup": {run: takeBackup, local: true, changes: always, methods: []string{http.MethodPost},
			needs: access.Operate | access.Get | access.Stats}, // it holds every item of every queue
		"status": {run: status, changes: isPost, methods: append(readOnly(), http.MethodPost), free: true},
		"connections": {run: connections, costly: true, changes: isPost, methods: append(readOnly(), http.MethodPost),
			needs: access.Operate | access.Stats}, // it names queues
		"sniff":   {run: sniff, local: true, listens: true, methods: readOnly(), needs: access.Operate | access.Stats}, // likewise
		"healthz": {run: health, methods: readOnly(), kind: kindText, free: true},
		"readyz":  {run: readiness, methods: readOnly(), kind: kindText, free: true},
	}
}
