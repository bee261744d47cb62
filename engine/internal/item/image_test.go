package item

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"
)

// goldenItem is the item of the golden images and records. 1700000000000 is 0x18bcfe56800.
var goldenItem = Item{
	Data: []byte("hello"), Flags: 7, Added: 1700000000000, Expiry: 1700000001000,
}

// maxSize is how many bytes an item has at most.
const maxSize = 32 << 20

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Bytes written out by hand, one group per field.
const (
	goldenImage   = "0c 05 0068e5cf8b01 07000000 e86be5cf8b01 68656c6c6f"
	goldenPlain   = "00 05 0068e5cf8b01 68656c6c6f"
	goldenFlags   = "04 00 000000000000 00000080"
	goldenKeyed   = "1c 05 0068e5cf8b01 07000000 e86be5cf8b01 03 68656c6c6f 6b2d31"
	goldenDead    = "30 05 0068e5cf8b01 03 04 01 68656c6c6f 6b2d31 6a6f6273"
	goldenExpiry  = "08 01 010000000000 ffffffffffff 78"
	golden256     = "01 0001 0068e5cf8b01 "                           // and 256 bytes
	golden64KiB   = "0e 00000100 0068e5cf8b01 07000000 e86be5cf8b01 " // and 65,536 bytes
	goldenLargest = "02 00000002 0068e5cf8b01 "                       // and 32 MiB
)

func TestImageGolden(t *testing.T) {
	plain := Item{Added: goldenItem.Added, Data: goldenItem.Data}
	sized := func(it Item, n int) Item { it.Data = bytes.Repeat([]byte{'x'}, n); return it }
	for _, tt := range []struct {
		it     Item
		golden string
		body   int // bytes 'x' behind golden
	}{
		{goldenItem, goldenImage, 0},
		{plain, goldenPlain, 0},
		{Item{Flags: 1 << 31}, goldenFlags, 0},
		{Item{Added: 1, Expiry: maxImageTime, Data: []byte("x")}, goldenExpiry, 0},
		{goldenItem.With(nil, []byte("k-1"), "", 0), goldenKeyed, 0},
		{plain.With(nil, []byte("k-1"), "jobs", TooOften), goldenDead, 0},
		{sized(plain, 255), "00 ff 0068e5cf8b01", 255},
		{sized(plain, 256), golden256, 256},
		{sized(plain, 65535), "01 ffff 0068e5cf8b01", 65535},
		{sized(goldenItem, 65536), golden64KiB, 65536},
		{sized(plain, maxSize), goldenLargest, maxSize},
	} {
		want := append(unhex(t, tt.golden), bytes.Repeat([]byte{'x'}, tt.body)...)
		got := AppendImage(nil, &tt.it)
		if !bytes.Equal(got, want) {
			t.Errorf("appendImage = %.40x, want %.40x", got, want)
		}
		if n := ImageSize(&tt.it); n != len(want) {
			t.Errorf("imageSize of %.40x = %d, want %d", want, n, len(want))
		}
		it, n := ParseImage(append(want, "next"...))
		if n != len(want) || !equalItems(it, tt.it) {
			t.Errorf("parseImage(%.40x) = %.60v, %d", want, it, n)
		}
		for n := range min(len(want), 300) { // cut anywhere, there is no image
			if _, size := ParseImage(want[:n:n]); size != 0 {
				t.Errorf("parseImage takes %d bytes of an image of %d", n, len(want))
			}
		}
	}
}

func equalItems(a, b Item) bool {
	data := bytes.Equal(a.Stored(), b.Stored())
	a.Data, b.Data = nil, nil
	return data && fmt.Sprint(a) == fmt.Sprint(b)
}

func TestImageTimes(t *testing.T) {
	for _, tt := range []struct{ in, want Time }{
		{math.MinInt64, 1}, {-1, 1}, {0, 0}, {1, 1}, {maxImageTime, maxImageTime},
		{maxImageTime + 1, maxImageTime}, {math.MaxInt64, maxImageTime},
	} {
		it, n := ParseImage(AppendImage(nil, &Item{Expiry: tt.in}))
		if n == 0 || it.Expiry != tt.want {
			t.Errorf("expiry %d comes back as %d, %d bytes, want %d", tt.in, it.Expiry, n, tt.want)
		}
		it, n = ParseImage(AppendImage(nil, &Item{Added: tt.in}))
		want := tt.want
		if tt.in < 0 {
			want = 0
		}
		if n == 0 || it.Added != want {
			t.Errorf("time added %d comes back as %d, %d bytes, want %d", tt.in, it.Added, n, want)
		}
	}
}

func TestParseImageErrors(t *testing.T) {
	for _, in := range []string{
		"03 05 0068e5cf8b01 68656c6c6f" + strings.Repeat("00", 20), // a width there is not
		"40 05 0068e5cf8b01 68656c6c6f",                            // a bit that no format has
		"10 05 0068e5cf8b01 00 68656c6c6f",                         // a key of no bytes
		"10 01 0068e5cf8b01 fb 78" + strings.Repeat("61", 251),     // a key that is too long
		"20 01 0068e5cf8b01 01 03 78 61",                           // given up for no known reason
		"80 01 0068e5cf8b01 68656c6c6f",                            // a gap
		"01 0500 0068e5cf8b01 68656c6c6f",                          // a size in too many bytes
		"02 05000000 0068e5cf8b01 68656c6c6f",
		"04 05 0068e5cf8b01 00000000 68656c6c6f",     // flags that are zero
		"08 05 0068e5cf8b01 000000000000 68656c6c6f", // an expiry of never
		"02 ffffffff 0068e5cf8b01" + strings.Repeat("00", 100),
	} {
		if it, n := ParseImage(unhex(t, in)); n != 0 {
			t.Errorf("parseImage(%s) = %+v, %d", in, it, n)
		}
	}
}

// FuzzParseImage: what is accepted was encoded exactly like that.
func FuzzParseImage(f *testing.F) {
	for _, golden := range []string{
		goldenImage, goldenPlain, goldenFlags, goldenExpiry, goldenKeyed, goldenDead,
		golden256 + strings.Repeat("ab", 256), golden64KiB,
	} {
		f.Add(unhex(f, golden))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		it, n := ParseImage(b)
		if n == 0 {
			return
		}
		if again := AppendImage(nil, &it); !bytes.Equal(again, b[:n]) || ImageSize(&it) != n {
			t.Errorf("%x encodes again as %x, of size %d", b[:n], again, ImageSize(&it))
		}
	})
}
