// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/leatdev/leat/internal/kit/seal"
)

// vaultFile is the suffix of a vault's files. Drafts of files that are being written have another.
const vaultFile = ".sealed"

// vault is a folder with a sealed file for each service. The key is derived from the agent's own:
// without that key the folder is useless to an attacker. It is safe for concurrent use, with one
// caller at a time for each service.
type vault struct {
	dir      string
	purpose  string // binds a file to its vault: no other vault can open it
	identity *Identity
}

// openVault creates the folder, and removes incomplete files of a crash.
func openVault(dir, purpose string, identity *Identity) (vault, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return vault{}, fmt.Errorf("make folder of %s: %w", purpose, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return vault{}, fmt.Errorf("list %s: %w", purpose, err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
				return vault{}, fmt.Errorf("remove draft of %s: %w", purpose, err)
			}
		}
	}
	return vault{dir: dir, purpose: purpose, identity: identity}, nil
}

// write replaces the file of a service. The content is bound to the place, so that no file can
// replace another.
func (v vault) write(service, place string, content []byte) error {
	sealer, err := v.identity.sealer(v.purpose)
	if err != nil {
		return err
	}
	sealed, err := sealer.Seal(content, []byte(place))
	if err != nil {
		return fmt.Errorf("seal %s: %w", v.purpose, err)
	}
	return writeFile(v.path(service), sealed)
}

// read returns the content that was written last for a service and a place, or fs.ErrNotExist if
// the file is missing.
func (v vault) read(service, place string) ([]byte, error) {
	sealed, err := os.ReadFile(v.path(service))
	if err != nil {
		return nil, err
	}
	sealer, err := v.identity.sealer(v.purpose)
	if err != nil {
		return nil, err
	}
	return sealer.Open(sealed, []byte(place))
}

// remove removes the file of a service. A missing file is not an error.
func (v vault) remove(service string) error {
	if err := os.Remove(v.path(service)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", v.purpose, err)
	}
	return nil
}

// retain removes the files of all services except the wanted ones.
func (v vault) retain(wanted map[string]bool) error {
	entries, err := os.ReadDir(v.dir)
	for _, entry := range entries {
		name, sealed := strings.CutSuffix(entry.Name(), vaultFile)
		if service, invalid := url.PathUnescape(name); !sealed || invalid == nil && wanted[service] {
			continue
		}
		if removed := os.Remove(filepath.Join(v.dir, entry.Name())); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}

// path returns the path of a service's file. It escapes the name, which is not trusted.
func (v vault) path(service string) string {
	return filepath.Join(v.dir, url.PathEscape(service)+vaultFile)
}

// sealer returns a sealer for this agent alone. Its key is derived from the agent's: a new key
// makes sealed files unreadable.
func (i *Identity) sealer(purpose string) (*seal.Sealer, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return seal.NewSealer(i.key.Seed(), purpose)
}
