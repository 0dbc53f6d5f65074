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

// FingerprintParams are the settings and collaborators of OpenFingerprints.
type FingerprintParams struct {
	// Dir is the folder of the sealed fingerprints.
	Dir      string
	Identity *Identity
	Logger   *slog.Logger
}

// Fingerprints stores the table of each service in a file. The files are sealed, because an
// attacker with the sum of an object could guess a short secret in it. It is safe for concurrent
// use, with one caller at a time for each service.
type Fingerprints struct {
	vault  vault
	logger *slog.Logger
}

var _ fingerprint.Store = (*Fingerprints)(nil)

// OpenFingerprints creates the folder, and removes incomplete files of a crash.
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
		f.logger.WarnContext(ctx, "cannot read stored fingerprints, applying the service again",
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
