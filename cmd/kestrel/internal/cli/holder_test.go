package cli

import (
	"strings"
	"testing"
)

func TestProgramOf(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"kestrel serve --data-dir x", "another server"},
		{"/usr/bin/kestrel", "another server"},
		{"./kestrel journal verify --data-dir x", "the command 'kestrel journal verify'"},
		{"kestrel journal export /data /out", "the command 'kestrel journal export'"},
		{"kestrel journal --data-dir /data verify", "the command 'kestrel journal'"},
		{"kestrel backup --stopped /data", "the command 'kestrel backup'"},
		{"kestrel restore /data", "the command 'kestrel restore'"},
		{"kestrel burrow get_messages q --server kestrel:///data", "the command 'kestrel burrow get_messages'"},
		{"kestrel proxy --backend kestrel:///data", "the command 'kestrel proxy'"},
		{"/opt/mailer --password x", `another program, "mailer"`},
		{"", `another program, "."`},
	} {
		if got := programOf(strings.Split(tt.line, " ")); got != tt.want {
			t.Errorf("programOf(%q) = %s, want %s", tt.line, got, tt.want)
		}
	}
}

func TestLockedBy(t *testing.T) {
	const locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:100 0 EOF\n2: FLOCK  ADVISORY  READ 12 fe:00:100 0 EOF\n" +
		"2: -> FLOCK  ADVISORY  WRITE 13 fe:00:200 0 EOF\n3: FLOCK  ADVISORY  WRITE 14 fe:00:200 0 EOF\n4: FLOCK\n"
	for file, want := range map[string]int{"fe:00:100": 12, "fe:00:200": 14, "fe:00:300": 0} {
		if got := lockedBy(locks, file); got != want {
			t.Errorf("lockedBy(%s) = %d, want %d", file, got, want)
		}
	}
}
