// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
)

const (
	fingerprintDir      = "fingerprints"
	fingerprintFile     = ".sealed"
	purposeFingerprints = "agent fingerprints"
)

// FingerprintParams are what OpenFingerprints needs.
type FingerprintParams struct {
	// Dir is where fingerprints are kept, sealed.
	Dir      string
	Identity *Identity
	Logger   *slog.Logger
}

// Fingerprints keeps what was applied in a file for each service. The files are sealed: the sum of an object whose secret is
// short would let whoever has it try secrets out. It is safe for concurrent use, each service by one caller at a time.
type Fingerprints struct {
	params FingerprintParams
}

var _ reconcile.Fingerprints = (*Fingerprints)(nil)

// OpenFingerprints makes the folder, and removes what a crash left half-written.
func OpenFingerprints(p FingerprintParams) (*Fingerprints, error) {
	p.Dir = filepath.Join(p.Dir, fingerprintDir)
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for fingerprints: %w", err)
	}
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		return nil, fmt.Errorf("list fingerprints: %w", err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			if err := os.Remove(filepath.Join(p.Dir, entry.Name())); err != nil {
				return nil, fmt.Errorf("remove draft of fingerprints: %w", err)
			}
		}
	}
	return &Fingerprints{params: p}, nil
}

// Load implements reconcile.Fingerprints.
func (f *Fingerprints) Load(ctx context.Context, service string) fingerprint.Table {
	table, err := f.read(service)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.params.Logger.WarnContext(ctx, "stored fingerprints cannot be read, the service is applied again",
			slog.String("leat.service", service), slog.Any("error", err))
	}
	return table
}

func (f *Fingerprints) read(service string) (fingerprint.Table, error) {
	sealed, err := os.ReadFile(f.path(service))
	if err != nil {
		return nil, err
	}
	sealer, err := f.params.Identity.sealer(purposeFingerprints)
	if err != nil {
		return nil, err
	}
	plain, err := sealer.Open(sealed, []byte(service))
	if err != nil {
		return nil, err
	}
	return fingerprint.DecodeTable(plain)
}

// Save implements reconcile.Fingerprints.
func (f *Fingerprints) Save(_ context.Context, service string, table fingerprint.Table) error {
	sealer, err := f.params.Identity.sealer(purposeFingerprints)
	if err != nil {
		return err
	}
	sealed, err := sealer.Seal(table.Encode(), []byte(service))
	if err != nil {
		return fmt.Errorf("seal fingerprints: %w", err)
	}
	return writeFile(f.path(service), sealed)
}

// Delete implements reconcile.Fingerprints.
func (f *Fingerprints) Delete(_ context.Context, service string) error {
	if err := os.Remove(f.path(service)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove fingerprints: %w", err)
	}
	return nil
}

// path is where a service's fingerprints are kept. The name is escaped: it comes from outside.
func (f *Fingerprints) path(service string) string {
	return filepath.Join(f.params.Dir, url.PathEscape(service)+fingerprintFile)
}
