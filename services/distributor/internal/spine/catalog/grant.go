// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
)

// GrantLife is how long a cluster may read what it was granted.
const GrantLife = 15 * time.Minute

// Grant lets one cluster's agent, and no other, read a bundle although it is in no plan.
type Grant struct {
	// ClusterUID is the cluster: one that is created again under its name is not granted anything.
	ClusterUID string
	// Digest is the bundle, Source and Commit what it was made of; the source is in its normal
	// spelling.
	Digest digest.Digest
	Source Source
	Commit string
	// Subpath is where the manifests are inside the bundle.
	Subpath string
	// ExpiresAt is when it ends.
	ExpiresAt time.Time
}

// Grants keeps grants, so that every replica honours them.
type Grants interface {
	// Grant stores grants, and forgets ended ones. One that is there already lasts as long as the new
	// one.
	Grant(ctx context.Context, grants []Grant) error
}
