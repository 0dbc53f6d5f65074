// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package cloudvalues reads AWS Secrets Manager, Google Cloud's Secret Manager and Azure Key Vault
// with the identity that the hub's pod has at the cloud.
//
// It calls hosts of the clouds alone: documents name regions, projects and vaults, which are checked.
// The operator of the hub opens each cloud, because everybody who may write back ends then reads
// what the hub's identity may. There is no SDK of a cloud behind it (ADR 0045). What signs in is kept
// for some minutes, and is asked for again when a service refuses it.
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

	"github.com/leatdev/leat/internal/cloud"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Params are what all clouds share.
type Params struct {
	// Open are the clouds that the operator opened, by the words of the kinds.
	Open []string
	// Identity is what the hub is at the clouds. Required if one is open.
	Identity *cloud.Identity
	// AWSURL and GoogleURL are where the services are. Empty: where their clouds have them.
	AWSURL, GoogleURL string
	// GoogleProvider and GoogleAccount are those of cloud.Identity.GoogleToken.
	GoogleProvider, GoogleAccount string
	// AllowLocal lets a vault of Azure stand at this machine: for tests.
	AllowLocal bool
}

// Clouds returns the words for the clouds, which are those of the kinds.
func Clouds() []string { return []string{"aws", "gcp", "azure"} }

// manager is the secret manager of one cloud. Errors of its methods are those of [configs.Backend],
// or those of package cloud.
type manager interface {
	// signIn makes sure that there is what signs in.
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
		// What signs in may have ended early, so it is obtained again, once.
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

// sessionLife is how long what signs in is kept, where a cloud does not say that it ends sooner.
const sessionLife = 10 * time.Minute
