package machine

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestGroupMemory(t *testing.T) {
	const none = math.MaxInt64
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no control groups", nil, none},
		{"version 2, in a container", map[string]string{
			"proc/self/cgroup":         "0::/\n",
			"sys/fs/cgroup/memory.max": "104857600\n",
		}, 100 << 20},
		{"version 2, without a limit", map[string]string{
			"proc/self/cgroup":           "0::/user/me\n",
			"sys/fs/cgroup/user/max":     "1\n",
			"sys/fs/cgroup/user/me/x":    "",
			"sys/fs/cgroup/memory.max":   "max\n",
			"sys/fs/cgroup/other/memory": "1\n",
		}, none},
		{"version 2, a group above allows less", map[string]string{
			"proc/self/cgroup":                                      "0::/system.slice/kestrel.service\n",
			"sys/fs/cgroup/system.slice/memory.max":                 "1000\n",
			"sys/fs/cgroup/system.slice/kestrel.service/memory.max": "2000\n",
		}, 1000},
		{"version 1", map[string]string{
			"proc/self/cgroup": "9:name=systemd:/a\n4:cpu,memory:/b/c\n0::/\n",
			"sys/fs/cgroup/memory/b/c/memory.limit_in_bytes": "3000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
		}, 3000},
		{"nonsense", map[string]string{
			"proc/self/cgroup":                      "\n:\n0::/../..\n0::x\nmemory\n",
			"sys/fs/cgroup/memory.max":              "lots\n",
			"sys/fs/cgroup/x/memory.max":            "99999999999999999999\n",
			"sys/fs/cgroup/memory/limit_in_bytes/x": "",
		}, none},
	} {
		root := fstest.MapFS{}
		for name, text := range tt.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := groupMemory(root); got != tt.want {
			t.Errorf("%s: groupMemory = %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestMemory reads what the machine has, which control groups may make less.
func TestMemory(t *testing.T) {
	for _, tt := range []struct {
		name, meminfo, limit string
		want                 int64
	}{
		{"of the machine", "MemTotal:       2048 kB\nMemFree: 1 kB\n", "max\n", 2 << 20},
		{"of the control group", "MemTotal:       2048 kB\n", "1048576\n", 1 << 20},
		{"unknown", "", "max\n", unknownMemory},
		{"not a number", "MemTotal: much kB\n", "max\n", unknownMemory},
	} {
		root := fstest.MapFS{
			"proc/meminfo":             {Data: []byte(tt.meminfo)},
			"proc/self/cgroup":         {Data: []byte("0::/\n")},
			"sys/fs/cgroup/memory.max": {Data: []byte(tt.limit)},
		}
		if got := Memory(root); got != tt.want {
			t.Errorf("%s: Memory = %d, want %d", tt.name, got, tt.want)
		}
	}
}
