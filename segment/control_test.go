package segment_test

import (
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// The negative controls: every test of a promise is run on a build that breaks it, and must notice. The broken builds
// are file systems that leave out, or do wrongly, what the log asked them for. To the disk that is the same as a log
// that forgot to ask.

// brokenFS is a file system with faults built in; a nil hook does what it should.
type brokenFS struct {
	segment.FS
	file      func(name string, f segment.File) segment.File // for files made or opened for writing
	noSyncDir func(last string) bool                         // whether to skip it, after that change
	last      string                                         // last change of a name
}

func (b *brokenFS) Create(name string) (segment.File, error) {
	return b.wrapped(name, b.FS.Create)
}

func (b *brokenFS) Open(name string) (segment.File, error) {
	return b.wrapped(name, b.FS.Open)
}

func (b *brokenFS) wrapped(
	name string, open func(string) (segment.File, error),
) (segment.File, error) {
	f, err := open(name)
	if err != nil || b.file == nil {
		return f, err
	}
	return b.file(name, f), nil
}

func (b *brokenFS) Rename(from, to string) error {
	b.last = "rename " + path.Ext(from) + " " + path.Ext(to)
	return b.FS.Rename(from, to)
}

func (b *brokenFS) Remove(name string) error {
	b.last = "remove " + path.Ext(name)
	return b.FS.Remove(name)
}

func (b *brokenFS) SyncDir(dir string) error {
	if b.noSyncDir != nil && b.noSyncDir(b.last) {
		return nil
	}
	return b.FS.SyncDir(dir)
}

// brokenFile is a file with faults built in; a nil hook does what it should.
type brokenFile struct {
	segment.File
	write func(f segment.File, p []byte, off int64) (int, error)
	sync  func(f segment.File) error
	cut   func(f segment.File, size int64) error
	close func(f segment.File) error
	kind  byte // of the frame written last
}

func (b *brokenFile) WriteAt(p []byte, off int64) (int, error) {
	if off >= 64 && len(p) > 4 {
		b.kind = p[4]
	}
	if b.write != nil {
		return b.write(b.File, p, off)
	}
	return b.File.WriteAt(p, off)
}

func (b *brokenFile) Datasync() error {
	if b.sync != nil {
		return b.sync(b.File)
	}
	return b.File.Datasync()
}

func (b *brokenFile) Truncate(size int64) error {
	if b.cut != nil {
		return b.cut(b.File, size)
	}
	return b.File.Truncate(size)
}

func (b *brokenFile) Close() error {
	if b.close != nil {
		return b.close(b.File)
	}
	return b.File.Close()
}

// files returns a build in which every file is broken in a way.
func files(broken func(name string) *brokenFile) build {
	return func(disk *segmenttest.FS) segment.FS {
		return &brokenFS{FS: disk, file: func(name string, f segment.File) segment.File {
			b := broken(name)
			b.File = f
			return b
		}}
	}
}

func dirs(noSyncDir func(last string) bool) build {
	return func(disk *segmenttest.FS) segment.FS {
		return &brokenFS{FS: disk, noSyncDir: noSyncDir}
	}
}

func skip(segment.File) error { return nil }

// skippingFirst skips the first sync of a file: that of a segment's header.
func skippingFirst(string) *brokenFile {
	n := 0
	return &brokenFile{sync: func(f segment.File) error {
		if n++; n == 1 {
			return nil
		}
		return f.Datasync()
	}}
}

// skippingSealed skips the sync of every file but the one made last.
func skippingSealed() func(string) *brokenFile {
	made := 0
	return func(string) *brokenFile {
		made++
		mine := made
		return &brokenFile{sync: func(f segment.File) error {
			if mine < made {
				return nil
			}
			return f.Datasync()
		}}
	}
}

// cuttingEarly puts the sync of a trailer off and forgets it if the file is cut in between.
func cuttingEarly(string) *brokenFile {
	b, due := &brokenFile{}, false
	b.sync = func(f segment.File) error {
		if b.kind == byte(segment.KindTrailer) {
			due = true
			return nil
		}
		return f.Datasync()
	}
	b.cut = func(f segment.File, size int64) error {
		due = false
		return f.Truncate(size)
	}
	b.close = func(f segment.File) error {
		if due {
			if err := f.Datasync(); err != nil {
				f.Close()
				return err
			}
		}
		return f.Close()
	}
	return b
}

// withoutEndMark leaves out the zeros behind a frame.
func withoutEndMark(string) *brokenFile {
	return &brokenFile{write: func(f segment.File, p []byte, off int64) (int, error) {
		if off < 64 {
			return f.WriteAt(p, off)
		}
		n, err := f.WriteAt(p[:len(p)-8], off)
		return n + 8, err
	}}
}

// crashControls break what TestCrashEveryWrite relies on.
var crashControls = []struct {
	name  string
	build build
	ids   func() uint64
	from  int // stop at which to begin
}{
	{name: "sync does nothing", build: files(func(string) *brokenFile {
		return &brokenFile{sync: skip}
	})},
	{name: "name before header is synced (S1)", build: files(skippingFirst)},
	{name: "only the tail is synced (S4)", build: files(skippingSealed())},
	{name: "cut before the trailer is synced (S8)", build: files(cuttingEarly)},
	{name: "no end mark", build: files(withoutEndMark), from: 60},
	{name: "no directory sync", build: dirs(func(string) bool { return true })},
	{name: "no directory sync behind a new segment", build: dirs(func(last string) bool {
		return strings.HasSuffix(last, ".seg") && strings.HasPrefix(last, "rename")
	})},
	{name: "no directory sync behind a drop (S6)", build: dirs(func(last string) bool {
		return last == "rename .seg .spare" || last == "remove .seg"
	}), from: 20},
	{name: "one id for all segments", build: sound, ids: func() uint64 { return 7 }, from: 60},
}

func TestControlCrash(t *testing.T) {
	t.Parallel()
	for _, tt := range crashControls {
		t.Run(tt.name, func(t *testing.T) {
			c := crashTest{
				opts: smallOptions, steps: life, build: tt.build, ids: tt.ids, tears: 2,
				from: tt.from, enough: 1,
			}
			c.run()
			wantViolation(t, c.violations)
		})
	}
}

func wantViolation(t *testing.T, violations []error) {
	t.Helper()
	if len(violations) == 0 {
		t.Error("the test does not notice")
		return
	}
	t.Log(violations[0])
}

// hidingSync keeps a failed sync to itself.
func hidingSync(string) *brokenFile {
	return &brokenFile{sync: func(f segment.File) error { f.Datasync(); return nil }}
}

// hidingWrite keeps a failed write to itself.
func hidingWrite(string) *brokenFile {
	return &brokenFile{write: func(f segment.File, p []byte, off int64) (int, error) {
		f.WriteAt(p, off)
		return len(p), nil
	}}
}

// writingBehind writes behind a failed write instead of over it (S2).
func writingBehind(string) *brokenFile {
	shift := int64(0)
	return &brokenFile{write: func(f segment.File, p []byte, off int64) (int, error) {
		n, err := f.WriteAt(p, off+shift)
		if err != nil {
			shift += int64(len(p)) - 8
		}
		return n, err
	}}
}

// withoutRewrite has recovery trust what it reads to be on disk once a sync succeeds.
func withoutRewrite(name string) *brokenFile {
	return &brokenFile{write: func(f segment.File, p []byte, off int64) (int, error) {
		if path.Ext(name) == ".seg" && p[4] != byte(segment.KindTrailer) {
			return len(p), nil
		}
		return f.WriteAt(p, off)
	}}
}

// leaking does not close.
func leaking(string) *brokenFile { return &brokenFile{close: skip} }

func TestControlFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		broken func(string) *brokenFile
		kind   segmenttest.OpKind // the faults that show it
	}{
		{"sync that failed is tried again (S5)", retryingSync, segmenttest.OpDatasync},
		{"failed sync is hidden", hidingSync, segmenttest.OpDatasync},
		{"failed write is hidden", hidingWrite, segmenttest.OpWriteAt},
		{"write behind a failed one (S2)", writingBehind, segmenttest.OpWriteAt},
		{"recovery does not write again", withoutRewrite, segmenttest.OpDatasync},
		{"files are not closed", leaking, segmenttest.OpCreate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := faultTest{
				crashTest: crashTest{opts: smallOptions, steps: life, build: files(tt.broken), enough: 1},
				kinds:     []segmenttest.OpKind{tt.kind},
			}
			c.run()
			wantViolation(t, c.violations)
		})
	}
}

// retryingSync syncs a file again if that failed (S5).
func retryingSync(string) *brokenFile {
	return &brokenFile{sync: func(f segment.File) error {
		if err := f.Datasync(); err == nil {
			return nil
		}
		return f.Datasync()
	}}
}

func TestControlModel(t *testing.T) {
	t.Parallel()
	for _, tt := range crashControls {
		if tt.ids != nil {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			for seed := uint64(1); seed < 2000; seed++ {
				m := newModelRun(seed, tt.build)
				for range 20 {
					if err := m.life(); err != nil {
						t.Logf("seed %d: %v", seed, err)
						return
					}
				}
			}
			t.Error("the test does not notice")
		})
	}
}

// TestControlDamage takes from the log what distinguishes damage from a torn tail, and has Open write.
func TestControlDamage(t *testing.T) {
	l := store(t, opens, appends(10, 300), syncs) // like the marked log, without the mark
	image := l.disk.Kill()
	must(t, image.FlipBit(l.last, 200, 0))
	wantViolation(t, errorList(l.judge(t, image, l.last, verdict{damage: true, offset: -1})))

	l = store(t, opens, appends(10, 300), syncs, marks)
	image = l.disk.Kill()
	must(t, image.FlipBit(l.last, 200, 0))
	must(t, l.judge(t, image, l.last, verdict{damage: true, offset: -1}))
	writes := &writingFS{FS: image, disk: image}
	err := l.judgeOn(t, image, writes, l.last, verdict{damage: true, offset: -1})
	wantViolation(t, errorList(err))

	// A payload that was changed along with its checksum is what a wrong byte handed over looks
	// like.
	data, err := l.disk.Bytes(l.last)
	must(t, err)
	ref, _ := refRead(data)
	f := ref.frames[1]
	f.payload[0]++
	copy(data[f.offset:], refFrameBytes(ref.id, 1, f.watermark, f.position, 10, f.payload))
	image = l.disk.Kill()
	must(t, image.WriteFile(l.last, data))
	wantViolation(t, errorList(l.judge(t, image, l.last, verdict{tear: true, keep: -1})))
}

// writingFS changes something whenever a directory is listed.
type writingFS struct {
	segment.FS
	disk *segmenttest.FS
}

func (w *writingFS) List(dir string) ([]string, error) {
	err := w.disk.FlipBit(segmentPath('1'), 150, 1)
	if err != nil {
		return nil, err
	}
	return w.FS.List(dir)
}

func errorList(err error) []error {
	if err == nil {
		return nil
	}
	return []error{err}
}

// TestControlDrop drops a segment before the link of the next is durable (S6).
func TestControlDrop(t *testing.T) {
	s, disk := start(t, smallOptions, appends(700), syncs, appends(700))
	s.log.SetWatermark(1 << 60)
	must(t, s.drop(1))
	image := disk.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
	wantViolation(t, errorList(s.on(image).open(promiseSynced)))
}

// TestControlWatches sees to it that the watches see.
func TestControlWatches(t *testing.T) {
	disk, watch := segmenttest.New(), &syncWatch{}
	f, err := watch.on(disk).Create("f")
	must(t, err)
	failNext(disk, segmenttest.OpDatasync, syscall.EIO)
	f.Datasync()
	f.WriteAt([]byte("x"), 0)
	f.Datasync()
	f.Truncate(0)
	if len(watch.broken) != 3 {
		t.Errorf("three calls behind a failed sync: %v", watch.broken)
	}
	names := &nameWatch{FS: disk}
	names.Rename("f", "g")
	names.Rename("g", "h")
	if len(names.broken) != 1 {
		t.Errorf("two renames in a row: %v", names.broken)
	}
}
