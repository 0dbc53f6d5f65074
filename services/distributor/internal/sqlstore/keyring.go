// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/services/distributor/internal/keys/keyroot"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Keys are the keys with which a store opens sealed values.
type Keys struct {
	// Roots wrap the keys that seal: the first wraps, all unwrap. At least one.
	Roots []keyroot.Root
	// Secrets are those with which earlier releases sealed values, without keys of their own. Values
	// of that form still open, until they are sealed again. The first one is also the root of the
	// digests of configurations in a database of an earlier release.
	Secrets [][]byte
}

// digestKey is the id of the row with the key of the digests of configurations.
const digestKey = "digests"

// numberOfDigestKey tells it from the keys that seal, which are numbered from 1.
const numberOfDigestKey = 0

// keyBytes is the length of the keys that the store makes.
const keyBytes = 32

type sealingKeyRow struct {
	bun.BaseModel `bun:"table:sealing_keys,alias:sk"`
	ID            string `bun:"id,pk"`
	Number        int64  `bun:"number"`
	Root          string `bun:"root"`
	Wrapped       []byte `bun:"wrapped"`
	CreatedAt     int64  `bun:"created_at"`
}

// keyStore holds the unwrapped keys of a replica.
type keyStore struct {
	roots   []keyroot.Root
	secrets [][]byte
	former  []seal.Key // of secrets: they open values of the earlier form
	ring    *seal.Keyring
	digests atomic.Pointer[seal.Fingerprinter]

	mu    sync.Mutex          // orders loads
	plain map[string]keyPlain // by id
	// incarnation is the database's when this replica opened it. It does not change afterwards.
	incarnation atomic.Pointer[string]
}

// isReplaced reports whether the database was restored from a backup since this replica opened it.
func (k *keyStore) isReplaced(incarnation string) bool {
	opened := k.incarnation.Load()
	return opened != nil && *opened != incarnation
}

// keyPlain is an unwrapped key, and the row that it was unwrapped from.
type keyPlain struct {
	secret []byte
	root   string
}

func newKeyStore(keys Keys) (*keyStore, error) {
	if len(keys.Roots) == 0 {
		return nil, errors.New("open keys of the catalog: there is no root")
	}
	k := &keyStore{roots: keys.Roots, secrets: keys.Secrets, ring: new(seal.Keyring), plain: map[string]keyPlain{}}
	for _, secret := range keys.Secrets {
		key, err := seal.NewKey(secret)
		if err != nil {
			return nil, fmt.Errorf("open keys of the catalog: %w", err)
		}
		k.former = append(k.former, key)
	}
	return k, nil
}

// load reads the keys and unwraps the ones that this replica does not have yet.
func (k *keyStore) load(ctx context.Context, from connections) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var state editLockRow
	var rows []*sealingKeyRow
	err := from.read(ctx, "read keys", func(ctx context.Context, tx bun.Tx) error {
		rows = nil
		if err := tx.NewSelect().Model(&state).Where("id = 1").Scan(ctx); err != nil {
			return err
		}
		return tx.NewSelect().Model(&rows).Scan(ctx)
	})
	if err != nil {
		return err
	}
	if k.isReplaced(state.Incarnation) {
		return catalog.ErrReplaced
	}
	k.incarnation.Store(&state.Incarnation)
	next := make(map[string]keyPlain, len(rows))
	for _, row := range rows {
		known, ok := k.plain[row.ID]
		if !ok || known.root != row.Root {
			if known, err = k.unwrap(ctx, row); err != nil {
				return err
			}
		}
		next[row.ID] = known
	}
	return k.adopt(state.SealingKey, next)
}

// adopt puts the keys to use.
func (k *keyStore) adopt(current string, plain map[string]keyPlain) error {
	first, ok := plain[current]
	digests, ok2 := plain[digestKey]
	if !ok || !ok2 {
		return fmt.Errorf("read keys: key %q is missing in the database", current)
	}
	fingerprinter, err := seal.FingerprinterOf(digests.secret)
	if err != nil {
		return err
	}
	head, err := seal.NewKey(first.secret)
	if err != nil {
		return err
	}
	var others []seal.Key
	for id, key := range plain {
		if id == current || id == digestKey {
			continue
		}
		other, err := seal.NewKey(key.secret)
		if err != nil {
			return err
		}
		others = append(others, other)
	}
	k.plain = plain
	k.digests.Store(fingerprinter)
	k.ring.Replace(head, append(others, k.former...)...)
	return nil
}

// firstDigestKey returns the key of digests: a random one for an empty catalog, and the one that
// earlier releases used for another, because a changed digest has agents fetch the configuration
// again.
func (k *keyStore) firstDigestKey(revision int64) ([]byte, error) {
	if revision > 0 && len(k.secrets) > 0 {
		return seal.NewFingerprintKey(k.secrets[0], purposeConfig)
	}
	return randomKey(), nil
}

// newKey makes a key that seals.
func (k *keyStore) newKey(ctx context.Context, number int64) (*sealingKeyRow, error) {
	secret := randomKey()
	key, err := seal.NewKey(secret)
	if err != nil {
		return nil, err
	}
	return k.wrap(ctx, key.ID().String(), number, secret)
}

func randomKey() []byte {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	return key
}

// wrap returns the row of a key, wrapped by the first root. It makes the root unwrap the key again:
// one that may encrypt and not decrypt would make a database that cannot be opened.
func (k *keyStore) wrap(ctx context.Context, id string, number int64, key []byte) (*sealingKeyRow, error) {
	wrapped, err := k.roots[0].Wrap(ctx, key, id)
	if err != nil {
		return nil, rootError("wrap key", err)
	}
	again, err := k.roots[0].Unwrap(ctx, wrapped, id)
	if err != nil {
		return nil, rootError("unwrap a key that was just wrapped", err)
	}
	if !bytes.Equal(again, key) {
		return nil, fmt.Errorf("wrap key: root %s unwraps to another key: %w", k.roots[0].Name(), keyroot.ErrRefused)
	}
	return &sealingKeyRow{ID: id, Number: number, Root: k.roots[0].Name(), Wrapped: wrapped, CreatedAt: micros(time.Now())}, nil
}

func (k *keyStore) unwrap(ctx context.Context, row *sealingKeyRow) (keyPlain, error) {
	for _, root := range k.roots {
		if root.Name() != row.Root {
			continue
		}
		key, err := root.Unwrap(ctx, row.Wrapped, row.ID)
		if err == nil && len(key) != keyBytes {
			err = fmt.Errorf("%w: it has %d bytes", keyroot.ErrRefused, len(key))
		}
		if err != nil {
			return keyPlain{}, rootError("unwrap key "+row.ID, err)
		}
		return keyPlain{secret: key, root: row.Root}, nil
	}
	names := make([]string, len(k.roots))
	for i, root := range k.roots {
		names[i] = root.Name()
	}
	return keyPlain{}, fmt.Errorf("unwrap key %s: it is wrapped by root %s, and this replica has %s; was the service secret "+
		"or the sealing key of the distributor changed without listing the former one beside it: %w",
		row.ID, row.Root, strings.Join(names, ", "), keyroot.ErrRefused)
}

// rootError makes a root that does not answer look like a database that does not: callers try
// again later.
func rootError(verb string, err error) error {
	if errors.Is(err, keyroot.ErrUnavailable) {
		return fmt.Errorf("%s: %w: %w", verb, catalog.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", verb, err)
}
