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

	"github.com/leatdev/leat/internal/seal"
)

// vaultFile ends the name of each file of a vault; drafts of files that are being written have other names.
const vaultFile = ".sealed"

// vault is a folder with a sealed file for each service. The key is made of the agent's: whoever gets at the folder without it has
// nothing. It is safe for concurrent use, each service by one caller at a time.
type vault struct {
	dir      string
	purpose  string // what is kept: no file of one vault can be opened in another
	identity *Identity
}

// openVault makes the folder, and removes what a crash left half-written.
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

// write replaces the file of a service. The content is bound to the place, so that none can stand in for another.
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

// read returns what was written last for a service and a place. Error: fs.ErrNotExist.
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

// remove removes the file of a service, if there is one.
func (v vault) remove(service string) error {
	if err := os.Remove(v.path(service)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", v.purpose, err)
	}
	return nil
}

// retain removes the files of all services but the wanted ones.
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

// path is where a service's file is. The name is escaped: it comes from outside.
func (v vault) path(service string) string {
	return filepath.Join(v.dir, url.PathEscape(service)+vaultFile)
}

// sealer seals for this agent alone: its key is made of the agent's, and what was sealed ends with that.
func (i *Identity) sealer(purpose string) (*seal.Sealer, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return seal.NewSealer(i.key.Seed(), purpose)
}
