// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/cas/casdisk"
	"github.com/leatdev/leat/services/distributor/internal/delivery/bundles"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
)

// badDisk lets one operation fail, or damages what one reads or writes.
type badDisk struct {
	kind string
	left atomic.Int64 // operations that go well before
}

func (b *badDisk) hooks() casdisk.Hooks {
	errnos := map[string]error{"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC}
	return casdisk.Hooks{
		Fault: func(casdisk.Op, string) error {
			if errno := errnos[b.kind]; errno != nil && b.left.Add(-1) == 0 {
				return errno
			}
			return nil
		},
		Damage: func(op casdisk.Op, _ string, p []byte) []byte {
			// The agent notices bytes that go bad on the way to a reader of a blob.
			if op == casdisk.OpServe || errnos[b.kind] != nil || b.left.Add(-1) != 0 {
				return p
			}
			if b.kind == "cut" {
				return p[:len(p)/2]
			}
			p[0] ^= 1
			return p
		},
	}
}

// TestBadDisk asks for bundles while one operation of the disk goes wrong, any of them. A complete
// bundle is right, and a caller that asks again gets it.
func TestBadDisk(t *testing.T) {
	t.Parallel()
	items := []item{newItem(t, 1, 300<<10), newItem(t, 2, 1000)}
	u := &origin{download: func(_ context.Context, bundle plan.Bundle) (io.Reader, error) {
		for _, one := range items {
			if one.Digest == bundle.Digest {
				return bytes.NewReader(one.stored), nil
			}
		}
		return nil, errors.New("no such bundle")
	}}
	rapid.Check(t, func(rt *rapid.T) {
		disk := &badDisk{kind: rapid.SampledFrom([]string{"EIO", "ENOSPC", "flip", "cut"}).Draw(rt, "kind")}
		cfg := casdisk.Config{Dir: t.TempDir(), MaxBytes: 1 << 20, Hooks: disk.hooks()}
		store, err := casdisk.Open(cfg)
		if err != nil {
			rt.Fatal(err)
		}
		cache := newCache(t, store, u)
		disk.left.Store(rapid.Int64Range(1, 60).Draw(rt, "after"))
		for range 3 { // a fill, and two reads
			for _, one := range items {
				content, err := cache.Stream(t.Context(), one.Bundle)
				if err != nil {
					continue
				}
				if got, err := read(content); err == nil && !bytes.Equal(got, one.stored) {
					rt.Errorf("got %d wrong bytes", len(got))
				}
			}
		}
		disk.left.Store(0)
		for _, one := range items {
			blob, err := cache.Open(t.Context(), one.Bundle)
			if err != nil {
				rt.Fatalf("open on a disk that is well again: %v", err)
			}
			if got, err := read(bundles.Content{Blob: blob}); err != nil || !bytes.Equal(got, one.stored) {
				rt.Errorf("on a disk that is well again: got %d bytes and %v, want all %d", len(got), err, len(one.stored))
			}
		}
		cache.Close()
		if err := store.Close(); err != nil {
			rt.Error(err)
		}
	})
}

// TestDamageWhileServing lets the disk fail in the middle of an answer.
func TestDamageWhileServing(t *testing.T) {
	t.Parallel()
	want := newItem(t, 1, 1<<20)
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2 %t", http2), func(t *testing.T) {
			t.Parallel()
			var reads atomic.Int64
			reads.Store(-1 << 20) // the first answer may come from the disk, too
			hooks := casdisk.Hooks{Fault: func(op casdisk.Op, _ string) error {
				if op == casdisk.OpServe && reads.Add(1) == 5 {
					return syscall.EIO
				}
				return nil
			}}
			u := &origin{download: func(context.Context, plan.Bundle) (io.Reader, error) { return bytes.NewReader(want.stored), nil }}
			server := serveBundles(t, u, casdisk.Config{Hooks: hooks}, http2)
			if got, err := io.ReadAll(get(t, server, want.Digest, nil).Body); err != nil || !bytes.Equal(got, want.stored) {
				t.Fatalf("first: got %d bytes and %v, want all", len(got), err)
			}
			reads.Store(0)
			if got, err := io.ReadAll(get(t, server, want.Digest, nil).Body); err == nil {
				t.Errorf("with a failing disk: got %d bytes to the end, want the answer broken off", len(got))
			}
			res := get(t, server, want.Digest, nil)
			if got, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || !bytes.Equal(got, want.stored) {
				t.Errorf("then: got status %d, %d bytes and %v, want the bundle fetched again", res.StatusCode, len(got), err)
			}
			if total, _, _ := u.counts(); total != 2 {
				t.Errorf("downloads: got %d, want 2", total)
			}
		})
	}
}
