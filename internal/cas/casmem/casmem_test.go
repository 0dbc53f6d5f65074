// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casmem_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/cas/casmem"
	"github.com/leatdev/leat/internal/cas/castest"
	"github.com/leatdev/leat/internal/digest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	castest.Run(t, func(testing.TB) cas.Store {
		return casmem.New(casmem.Config{MaxContentBytes: castest.MaxContentBytes})
	})
}

func TestEviction(t *testing.T) {
	t.Parallel()
	size := int64(len(castest.Zstd(t, []byte("a"))))
	var pinned digest.Digest
	store := casmem.New(casmem.Config{MaxBytes: 3 * size, Pinned: func(d digest.Digest) bool { return d == pinned }})
	a := castest.Put(t, store, []byte("a"))
	b := castest.Put(t, store, []byte("b"))
	castest.Put(t, store, []byte("c"))
	castest.Check(t, store, []byte("a"))
	castest.Put(t, store, []byte("d")) // b was read least recently
	castest.CheckAbsent(t, store, b)
	pinned = a
	for _, content := range []string{"e", "f", "g"} {
		castest.Put(t, store, []byte(content))
	}
	castest.Check(t, store, []byte("a"))

	full := casmem.New(casmem.Config{MaxBytes: size, Pinned: func(digest.Digest) bool { return true }})
	castest.Put(t, full, []byte("a"))
	if _, err := full.Put(t.Context(), b, bytes.NewReader(castest.Zstd(t, []byte("b")))); !errors.Is(err, cas.ErrFull) {
		t.Errorf("put beside a pinned blob: got %v, want ErrFull", err)
	}
	castest.Check(t, full, []byte("a"))
}
