// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package cloudvalues reads AWS Secrets Manager, Google Cloud's Secret Manager and Azure Key Vault
// with the identity that the hub's pod has at the cloud.
//
// It calls hosts of the clouds alone: documents name regions, projects and vaults, which are
// checked. The operator of the hub opens each cloud, because people who may write back ends then
// read everything that the hub's identity may. There is no SDK of a cloud behind it (ADR 0045).
// Credentials are kept for some minutes, and are asked for again when a service refuses it.
//
// A secret that is a JSON object is an entry of its members; any other text is an entry with the one
// key content.
//
// Files call one another downwards: cloudvalues; aws, gcp, azure; call.
package cloudvalues

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/runtime/cloud"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Params are shared by all clouds.
type Params struct {
	// Open are the clouds that the operator opened, by the words of the kinds.
	Open []string
	// Identity is the hub's identity at the clouds. Required if one is open.
	Identity *cloud.Identity
	// AWSURL and GoogleURL are where the services are. Empty: where their clouds have them.
	AWSURL, GoogleURL string
	// GoogleProvider and GoogleAccount are the arguments of cloud.Identity.GoogleToken.
	GoogleProvider, GoogleAccount string
	// AllowLocal lets a vault of Azure be at this machine: for tests.
	AllowLocal bool
}

// Clouds returns the words for the clouds, which are the kinds' words.
func Clouds() []string { return []string{"aws", "gcp", "azure"} }

// manager is the secret manager of one cloud. Its methods return the errors of [configs.Backend],
// or of package cloud.
type manager interface {
	// signIn makes sure that there is a credential.
	signIn(ctx context.Context) error
	// read returns a secret.
	read(ctx context.Context, name string) (found, error)
	// forget drops what signs in.
	forget()
}

// found is a secret of a cloud.
type found struct {
	value   []byte
	version string
}

// Backend is a secret manager.
type Backend struct{ manager manager }

var _ configs.Backend = (*Backend)(nil)

// Open returns the secret manager that a document describes. It calls nothing yet.
func Open(backend *catalog.ConfigBackend, p Params) (*Backend, error) {
	if kind := backend.Spec.KindName(); !slices.Contains(p.Open, kind) {
		return nil, fmt.Errorf("the operator of the hub has not opened the cloud %s: --distributor-config-clouds", kind)
	}
	switch s := backend.Spec; {
	case s.AWS != nil:
		return &Backend{newAWS(*s.AWS, p)}, nil
	case s.GCP != nil:
		return &Backend{newGoogle(*s.GCP, p)}, nil
	case s.Azure != nil:
		vault, err := newAzure(*s.Azure, p)
		return &Backend{vault}, err
	}
	return nil, errors.New("the back end is not one of a cloud")
}

// Close implements configs.Backend.
func (b *Backend) Close() error {
	b.manager.forget()
	return nil
}

// Check implements configs.Backend: it signs in.
func (b *Backend) Check(ctx context.Context) error {
	b.manager.forget()
	return b.manager.signIn(ctx)
}

// Read implements configs.Backend.
func (b *Backend) Read(ctx context.Context, path string) (configs.Entry, error) {
	secret, err := b.manager.read(ctx, path)
	if isSignInRefused(err) {
		// The credential may have ended early, so it is obtained again, once.
		b.manager.forget()
		secret, err = b.manager.read(ctx, path)
	}
	if err != nil {
		return configs.Entry{}, asAnswer(err)
	}
	if fields, err := configs.FieldsOfJSON(secret.value); err == nil {
		return configs.Entry{Fields: fields, Version: secret.version}, nil
	}
	return configs.EntryOf(map[string][]byte{"content": secret.value}, secret.version), nil
}

// sessionLife is how long a credential is kept, if a cloud does not name an earlier end.
const sessionLife = 10 * time.Minute
