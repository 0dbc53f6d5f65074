// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casdisk"
	"github.com/leatdev/leat/internal/contract/cas/castest"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/testkit/faults"
)

// keepHouse runs a store until the test ends, and returns the blobs that it reports lost.
func keepHouse(t *testing.T, store *casdisk.Store) (lost func() []digest.Digest) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var found []digest.Digest
	ended := make(chan error)
	go func() { ended <- store.Run(ctx, func(d digest.Digest) { found = append(found, d) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("run: got %v, want the context's error", err)
		}
	})
	return func() []digest.Digest {
		synctest.Wait()
		return found
	}
}

// putSome stores ten blobs of the same size, and returns them in order.
func putSome(t *testing.T, store *casdisk.Store) (some []digest.Digest) {
	t.Helper()
	for n := range 10 {
		some = append(some, castest.Put(t, store, fmt.Appendf(nil, "%d", n)))
	}
	return some
}

func TestEvictsFromTheHighMarkToTheLowOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pinned := digest.FromBytes([]byte("1"))
		store := open(t, casdisk.Config{
			MaxBytes: 11 * sizeOf(t), MinFreeBytes: -1, Pinned: func(d digest.Digest) bool { return d == pinned },
		})
		keepHouse(t, store)
		some := putSome(t, store)
		synctest.Wait()
		// Ten are more than 9.9; eight are less than 8.8.
		if got, _ := store.Usage(t.Context()); got.Blobs != 8 {
			t.Errorf("usage: got %+v, want what is below the low mark", got)
		}
		castest.CheckAbsent(t, store, some[0])
		castest.Check(t, store, []byte("1"))
		castest.CheckAbsent(t, store, some[2])
		castest.Check(t, store, []byte("3"))
		castest.Put(t, store, []byte("x"))
		synctest.Wait()
		if got, _ := store.Usage(t.Context()); got.Blobs != 9 {
			t.Errorf("usage between the marks: got %+v, want nothing evicted", got)
		}
	})
}

func TestLeavesRoomOnTheFileSystem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		size := sizeOf(t)
		free, inject := 12*size, faults.New()
		hooks := withFaults(inject)
		hooks.Space = func() (int64, int64) { return free, 1000 * size }
		hooks.Evicted = func(info cas.Info) { free += info.StoredSize }
		store := open(t, casdisk.Config{MinFreeBytes: 4 * size, Hooks: hooks})
		keepHouse(t, store)
		putSome(t, store)
		synctest.Wait()
		if got, _ := store.Usage(t.Context()); got.Blobs != 10 {
			t.Errorf("usage with room: got %+v, want nothing evicted", got)
		}
		free = 3 * size // another program has filled the disk
		inject.FailTimes(string(casdisk.OpSpace), 1, syscall.EIO)
		inject.FailTimes(string(casdisk.OpRemove), 2, syscall.EIO)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got, _ := store.Usage(t.Context()); got.Blobs != 5 || free != 8*size {
			t.Errorf("usage without room: got %+v and %d bytes free, want twice the minimum free", got, free)
		}
	})
}

// rotSilently changes a file so that only its bytes show it.
func rotSilently(t *testing.T, path string) {
	t.Helper()
	stat, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stored[len(stored)-1] ^= 1
	if err := errors.Join(os.WriteFile(path, stored, 0o600), os.Chtimes(path, stat.ModTime(), stat.ModTime())); err != nil {
		t.Fatal(err)
	}
}

func TestScrub(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var scrubbed []digest.Digest
		corrupt := 0
		cfg := casdisk.Config{Dir: t.TempDir(), Hooks: casdisk.Hooks{
			Scrubbed: func(info cas.Info) { scrubbed = append(scrubbed, info.Digest) },
			Corrupt:  func(digest.Digest, error) { corrupt++ },
		}}
		store := open(t, cfg)
		old := castest.Put(t, store, []byte("of another process"))
		store = reopen(t, store, cfg)
		fresh := castest.Put(t, store, []byte("content"))
		lost := keepHouse(t, store)

		time.Sleep(20 * time.Minute)
		if lost := lost(); len(lost) != 0 || !slices.Equal(scrubbed, []digest.Digest{old}) {
			t.Errorf("soon: got %v scrubbed and %v lost, want what this process has not read", scrubbed, lost)
		}
		rotSilently(t, fileOf(t, cfg.Dir, fresh))
		castest.Put(t, store, []byte("later"))
		time.Sleep(24*time.Hour + 20*time.Minute)
		if lost := lost(); !slices.Equal(lost, []digest.Digest{fresh}) || corrupt != 1 {
			t.Errorf("a day later: got %v lost and %d reports, want the damaged blob", lost, corrupt)
		}
		castest.CheckAbsent(t, store, fresh)
		castest.Check(t, store, []byte("of another process"))
		castest.Put(t, store, []byte("content"))
		time.Sleep(25 * time.Hour)
		if lost := lost(); len(lost) != 1 {
			t.Errorf("two days later: got %v lost, want the new bytes to be right", lost)
		}
		castest.Check(t, store, []byte("content"))
	})
}

func TestScrubKeepsToItsRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size, rate = 1 << 20, 64 << 10
		var scrubbed time.Time
		inject := faults.New()
		cfg := casdisk.Config{Dir: t.TempDir(), ScrubRate: rate, Hooks: withFaults(inject)}
		cfg.Hooks.Scrubbed = func(cas.Info) { scrubbed = time.Now() }
		store := open(t, cfg)
		castest.Put(t, store, castest.Noise(1, size))
		store = reopen(t, store, cfg)
		inject.FailTimes(string(casdisk.OpOpen), 1, syscall.EMFILE) // it is retried a day later
		start := time.Now()
		lost := keepHouse(t, store)
		time.Sleep(48 * time.Hour)
		if lost := lost(); len(lost) != 0 || scrubbed.IsZero() {
			t.Fatalf("got %v lost and scrubbed at %v, want it scrubbed", lost, scrubbed)
		}
		inject.Clear(string(casdisk.OpOpen))
		took := scrubbed.Sub(start) - 24*time.Hour
		if least := size / rate * time.Second * 3 / 4; took < least {
			t.Errorf("scrubbed after %v, want no less than a day and %v", scrubbed.Sub(start), least)
		}
		castest.Check(t, store, castest.Noise(1, size))
	})
}
