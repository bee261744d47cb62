package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kestrelmq/kestrel/access"
)

// quotaValue is what a user may use: a table with a number for each thing that is bounded.
type quotaValue struct{ p *access.Quota }

// quotaKeys are the keys of such a table, in their order, and where their values go.
func quotaKeys(q *access.Quota) (keys []string, values map[string]Value) {
	count := func(at *int64) Value { return countValue[int64]{at, 1, math.MaxInt32} }
	return []string{"connections", "open_reads", "waits", "operations", "bytes"}, map[string]Value{
		"connections": count(&q.Connections), "open_reads": count(&q.OpenReads), "waits": count(&q.Waits),
		"operations": count(&q.Operations), "bytes": sizeValue{&q.Bytes, 1},
	}
}

func (q quotaValue) Set(v any) error {
	table, ok := v.(map[string]any)
	if !ok {
		return errUnwanted
	}
	var to access.Quota
	keys, values := quotaKeys(&to)
	for _, key := range slices.Sorted(maps.Keys(table)) {
		at := values[key]
		if at == nil {
			return fmt.Errorf("%s is none of %s", key, strings.Join(keys, ", "))
		}
		switch err := at.Set(table[key]); err {
		case nil:
		case errUnwanted:
			return fmt.Errorf("%s: want %s, have %s", key, at.Want(), describe(table[key]))
		default:
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	*q.p = to
	return nil
}

func (q quotaValue) String() string {
	var words []string
	keys, values := quotaKeys(q.p)
	for _, key := range keys {
		if text := values[key].String(); text != "0" {
			words = append(words, key+" = "+text)
		}
	}
	return "{ " + strings.Join(words, ", ") + " }"
}

func (q quotaValue) Kind() string { return "quota" }
func (q quotaValue) Want() string {
	return `a table such as { connections = 100, operations = 1000, bytes = "10MiB" }`
}
