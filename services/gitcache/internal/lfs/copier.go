// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lfs

import (
	"context"
	"errors"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Copier keeps this replica's objects in step with another's. It may be used concurrently.
type Copier struct {
	Store   *Store
	Holders Holders
}

var _ mirror.Objects = (*Copier)(nil)

// Copy implements [mirror.Objects].
func (c *Copier) Copy(ctx context.Context, replica string, def mirror.Definition) error {
	held, err := c.Store.List(def.UID)
	if err != nil {
		return err
	}
	_, theirs, err := c.Holders.List(ctx, replica, def, Fingerprint(held))
	if err != nil {
		return err
	}
	for _, p := range theirs {
		if c.Store.Has(def.UID, p) {
			continue
		}
		if err := c.copy(ctx, replica, def, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *Copier) copy(ctx context.Context, replica string, def mirror.Definition, p Pointer) error {
	body, err := c.Holders.Read(ctx, replica, def, "", Want{Pointer: p})
	if err == nil {
		err = errors.Join(c.Store.Put(def.UID, p, body), body.Close())
	}
	if errors.Is(err, ErrAbsent) { // dropped meanwhile
		return nil
	}
	return err
}

// Remove implements [mirror.Objects].
func (c *Copier) Remove(_ context.Context, uid string) error { return c.Store.Remove(uid) }
