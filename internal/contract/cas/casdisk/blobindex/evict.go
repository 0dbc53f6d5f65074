// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package blobindex

import (
	"fmt"

	"github.com/leatdev/leat/internal/contract/cas"
)

// Reserve counts n bytes that are about to be written, and evicts blobs for them. If that is not
// enough, nothing is counted and the error is cas.ErrFull. Nothing is evicted either if that was
// foreseeable.
func (x *Index) Reserve(n int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if over := x.used + n - x.cfg.Limit; over > 0 {
		victims, sum := x.victims(over)
		if sum >= over {
			sum = x.evict(victims, over)
		}
		if sum < over {
			return fmt.Errorf("%w: %d of %d bytes used, %d of them can be evicted", cas.ErrFull, x.used, x.cfg.Limit, sum)
		}
	}
	x.used += n
	return nil
}

// Shed evicts about n bytes regardless of the bound, and returns how many bytes it freed.
func (x *Index) Shed(n int64) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	victims, _ := x.victims(n)
	return x.evict(victims, n)
}

// victims returns the least recently read blobs that are not pinned: enough of them for n bytes, if
// there are that many, and a few more in case some cannot be removed.
func (x *Index) victims(n int64) (victims []*Entry, sum int64) {
	const spare = 8
	enough := 0
	for element := x.recency.Back(); element != nil && enough <= spare; element = element.Prev() {
		e := of(element)
		if x.cfg.Pinned(e.Info.Digest) {
			continue
		}
		victims = append(victims, e)
		sum += e.Info.StoredSize
		if sum >= n {
			enough++
		}
	}
	return victims, sum
}

// evict removes blobs until n bytes are freed, and returns how many were.
func (x *Index) evict(victims []*Entry, n int64) (sum int64) {
	for _, e := range victims {
		if sum >= n {
			break
		}
		if x.cfg.Unlink(x.cfg.Path(e.Info)) != nil {
			continue // another one may go
		}
		x.drop(e)
		sum += e.Info.StoredSize
		x.cfg.Evicted(e.Info)
	}
	return sum
}

// discardFile removes an unwanted file. If that fails, it remembers the file and keeps its bytes
// counted.
func (x *Index) discardFile(path string, size int64) {
	if x.cfg.Unlink(path) != nil {
		x.litter[path] = size
		x.used += size
	}
}

// DiscardReserved is discardFile for a file whose bytes are counted as a reservation.
func (x *Index) DiscardReserved(path string, size int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.used -= size
	x.discardFile(path, size)
}

// Tidy tries again to remove the files that could not be removed.
func (x *Index) Tidy() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for path, size := range x.litter {
		if x.cfg.Unlink(path) == nil {
			x.used -= size
			delete(x.litter, path)
		}
	}
}
