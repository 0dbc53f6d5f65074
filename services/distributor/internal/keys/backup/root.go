// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"filippo.io/age"

	"github.com/leatdev/leat/services/distributor/internal/keys/keyroot"
)

// recipient is a root as age sees it when it encrypts.
type recipient struct {
	ctx  context.Context //nolint:containedctx // age's interface has no context
	root keyroot.Root
}

// Wrap implements age.Recipient.
func (r recipient) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	wrapped, err := r.root.Wrap(r.ctx, fileKey, place)
	if err != nil {
		return nil, err
	}
	return []*age.Stanza{{Type: stanza, Args: []string{r.root.Name()}, Body: wrapped}}, nil
}

// keyring is the roots as age sees them when it decrypts.
type keyring struct {
	ctx   context.Context //nolint:containedctx // age's interface has no context
	roots []keyroot.Root
	// err is why no root opens the file. age reports no reason of its own.
	err error
}

// Unwrap implements age.Identity.
func (k *keyring) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	if len(stanzas) != 1 || stanzas[0].Type != stanza || len(stanzas[0].Args) != 1 {
		return nil, k.refuse(fmt.Errorf("%w: it was not made by Leat", ErrForeign))
	}
	name := stanzas[0].Args[0]
	for _, root := range k.roots {
		if root.Name() != name {
			continue
		}
		key, err := root.Unwrap(k.ctx, stanzas[0].Body, place)
		if errors.Is(err, keyroot.ErrUnavailable) {
			return nil, k.refuse(fmt.Errorf("open backup: %w", err))
		}
		if err != nil {
			return nil, k.refuse(fmt.Errorf("%w: root %s does not open it: %w", ErrRoot, name, err))
		}
		return key, nil
	}
	names := make([]string, len(k.roots))
	for i, root := range k.roots {
		names[i] = root.Name()
	}
	return nil, k.refuse(fmt.Errorf("%w: it was made with the root %.100q, and the settings name %s; set the service secret or the "+
		"sealing keys of the distributor as they were when the backup was made", ErrRoot, name, strings.Join(names, ", ")))
}

// refuse remembers why the file does not open, and has age give up.
func (k *keyring) refuse(err error) error {
	k.err = err
	return err
}
