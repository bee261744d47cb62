package runs

import (
	"errors"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
)

// KeyFile is a run of a queue, backlog or hidden, in which items may have keys.
type KeyFile struct {
	File
	Keyed  bool  // the keys are in frames of their own
	First  int64 // before the frame at this offset there is none of these
	End    int64
	OnDisk func(id uint64) bool        // the item of an id is on disk alone, and in this file if it has it
	Each   func(func(item.Item)) error // reads the items that are
}

// errOtherSeed says that hashes of a file have another seed than those of the queue.
var errOtherSeed = errors.New("the keys in it are those of an earlier start of the queue")

// IndexKeys notes the keys of the items in files that are on disk alone. Of a file that has them in frames of their own
// it reads these, and of others all items. The function index returns the keys of the queue, of which there are none
// yet. The function unusable hears why the keys of a file cannot be used.
func (r *Reader) IndexKeys(files []KeyFile, index func() *keyindex.Keys, unusable func(File, error)) error {
	read, err := r.LoadKeys(files, index, unusable)
	for i := 0; err == nil && i < len(files); i++ {
		if read[i] {
			continue
		}
		err = files[i].Each(func(it item.Item) {
			if it.HasKey() {
				index().NoteNewest(it.Key(), it.ID)
			}
		})
	}
	return err
}

// LoadKeys fills the index of a queue, which has none, with what the frames of files have, the newest file first. It
// reports which files it has read: of the others, the items must be.
func (r *Reader) LoadKeys(
	files []KeyFile, index func() *keyindex.Keys, unusable func(File, error),
) (read []bool, err error) {
	k := keyLoad{r: r, index: index}
	for i := range files {
		if files[i].Keyed {
			k.total += files[i].End
		}
	}
	read = make([]bool, len(files))
	for i := len(files) - 1; i >= 0; i-- {
		f := &files[i]
		if !f.Keyed {
			continue
		}
		switch err := k.load(f); {
		case err == nil:
			read[i] = true
		case errors.Is(err, errOtherSeed), IsDamage(err):
			unusable(f.File, err)
		default:
			return nil, err
		}
	}
	k.begin()
	if k.loader != nil {
		k.loader.End()
	}
	return read, nil
}

// keyLoad is an index that is being filled from frames. It concludes from the newest quarter of all bytes how many
// entries there will be: a single file may have far more than its share. To count them, it would read headers twice.
type keyLoad struct {
	r           *Reader
	index       func() *keyindex.Keys
	total, seen int64            // bytes of all files, and of those that were read
	early       []keyindex.Entry // that there are before the loader
	loader      *keyindex.Loader
	frame       KeyFrame
}

// load adds the entries of a file that are about items on disk alone.
func (k *keyLoad) load(f *KeyFile) error {
	k.seen += f.End
	err := k.r.EachKeys(f.File, f.First, f.End, &k.frame, func() error {
		x := k.index()
		if x.Seed != k.frame.Seed {
			if k.loader != nil || len(k.early) > 0 {
				return errOtherSeed
			}
			x.Seed = k.frame.Seed
		}
		for _, e := range k.frame.Entries {
			switch {
			case !f.OnDisk(e.ID):
			case k.loader == nil:
				k.early = append(k.early, e)
			default:
				k.loader.Add(e)
			}
		}
		return nil
	})
	if err == nil && k.seen >= k.total/4 {
		k.begin()
	}
	return err
}

// begin makes the loader, if there are entries for it and it is not there yet.
func (k *keyLoad) begin() {
	if k.loader != nil || len(k.early) == 0 {
		return
	}
	n := float64(len(k.early)) * float64(k.total) / float64(k.seen)
	k.loader = k.index().Load(int(n))
	for _, e := range k.early {
		k.loader.Add(e)
	}
	k.early = nil
}
