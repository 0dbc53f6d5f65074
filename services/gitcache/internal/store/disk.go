// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// updateShare is the share of the limit that only mirrors which exist may take: updates of theirs
// go before new mirrors.
const updateShare = 0.05

// disk accounts for the bytes that mirrors take. It may be used concurrently.
type disk struct {
	limit  int64        // zero: none
	others func() int64 // bytes elsewhere that count, too

	mu       sync.Mutex
	accounts map[string]account // by UID
	stored   int64              // sum of the bytes of all accounts
	arriving int64              // bytes reserved by drafts; those already written are counted here, too
}

// account is the disk space of one mirror. The current generation counts, and no other.
type account struct {
	bytes  int64
	packs  int       // zero until the mirror is loaded
	readAt time.Time // when it was last opened; zero: not since the process started
}

func newDisk(limit int64, others func() int64) *disk {
	if others == nil {
		others = func() int64 { return 0 }
	}
	return &disk{limit: limit, others: others, accounts: map[string]account{}}
}

// measure opens an account for each mirror in a folder, before any is loaded: whatever lies there
// takes room, whether it can be read or not.
func (d *disk) measure(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || !mirror.IsUID(e.Name()) {
			continue
		}
		bytes, err := size(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		d.set(e.Name(), bytes, 0)
	}
	return nil
}

// size returns how many bytes the files below a folder have. A file that vanishes meanwhile has
// none.
func size(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				sum += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return sum, err
}

// set records what a mirror takes from now on.
func (d *disk) set(uid string, bytes int64, packs int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.accounts[uid]
	d.stored += bytes - a.bytes
	a.bytes, a.packs = bytes, packs
	d.accounts[uid] = a
}

// remove closes the account of a mirror that is gone.
func (d *disk) remove(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stored -= d.accounts[uid].bytes
	delete(d.accounts, uid)
}

// noteRead records that a mirror was opened. One that was removed meanwhile stays without an
// account.
func (d *disk) noteRead(uid string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a, ok := d.accounts[uid]; ok {
		a.readAt = now
		d.accounts[uid] = a
	}
}

// reserve asks for room for bytes that are about to be written to a new mirror, or to one that
// exists. The caller gives the room back with release, at the latest once the account has the
// bytes. The error is a [*mirror.UpstreamError].
func (d *disk) reserve(bytes int64, isNew bool) error {
	others := d.others()
	d.mu.Lock()
	defer d.mu.Unlock()
	limit := d.limit
	if isNew {
		limit -= int64(updateShare * float64(limit))
	}
	if used := d.stored + d.arriving + others; d.limit > 0 && used+bytes > limit {
		return &mirror.UpstreamError{
			Reason: reason.StorageFull,
			Message: fmt.Sprintf("Mirrors take %s of the %s that they may on this replica; raise gitcache-mirror-disk, "+
				"or delete repositories that are not needed. What is mirrored is served as before.",
				formatBytes(used), formatBytes(d.limit)),
		}
	}
	d.arriving += bytes
	return nil
}

// release gives reserved room back.
func (d *disk) release(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arriving -= bytes
}

// list returns all mirrors by UID.
func (d *disk) list() []mirror.Stored {
	d.mu.Lock()
	defer d.mu.Unlock()
	stored := make([]mirror.Stored, 0, len(d.accounts))
	for _, uid := range slices.Sorted(maps.Keys(d.accounts)) {
		a := d.accounts[uid]
		stored = append(stored, mirror.Stored{UID: uid, Bytes: a.bytes, ReadAt: a.readAt})
	}
	return stored
}

func (d *disk) usage() mirror.Usage {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := mirror.Usage{Bytes: d.stored + d.arriving, Limit: d.limit}
	for _, a := range d.accounts {
		u.Packs += a.packs
	}
	return u
}

// formatBytes writes a size for a sentence.
func formatBytes(bytes int64) string {
	if bytes >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}
