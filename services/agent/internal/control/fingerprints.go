// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/leatdev/leat/services/agent/internal/fingerprint"
)

const (
	fingerprintDir      = "fingerprints"
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
	vault  vault
	logger *slog.Logger
}

var _ fingerprint.Store = (*Fingerprints)(nil)

// OpenFingerprints makes the folder, and removes what a crash left half-written.
func OpenFingerprints(p FingerprintParams) (*Fingerprints, error) {
	v, err := openVault(filepath.Join(p.Dir, fingerprintDir), purposeFingerprints, p.Identity)
	if err != nil {
		return nil, err
	}
	return &Fingerprints{vault: v, logger: p.Logger}, nil
}

// Load implements reconcile.Fingerprints.
func (f *Fingerprints) Load(ctx context.Context, service string) fingerprint.Table {
	plain, err := f.vault.read(service, service)
	var table fingerprint.Table
	if err == nil {
		table, err = fingerprint.DecodeTable(plain)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.logger.WarnContext(ctx, "stored fingerprints cannot be read, the service is applied again",
			slog.String("leat.service", service), slog.Any("error", err))
	}
	return table
}

// Save implements reconcile.Fingerprints.
func (f *Fingerprints) Save(_ context.Context, service string, table fingerprint.Table) error {
	return f.vault.write(service, service, table.Encode())
}

// Delete implements reconcile.Fingerprints.
func (f *Fingerprints) Delete(_ context.Context, service string) error {
	return f.vault.remove(service)
}
