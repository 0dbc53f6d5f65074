// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package catalog describes the intended fleet: clusters, repositories and services, and who may
// reach them, the rules they obey, and the ports through which they are stored.
//
// Everything here is a value. A value that was handed out is never changed afterwards, so it may be
// shared between goroutines; a caller that wants another one makes a copy.
package catalog

import (
	"cmp"
	"context"
	"maps"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

const maxAnnotationBytes = 256 << 10

// Metadata is the common part of every object.
type Metadata struct {
	// Name is unique within its kind. Where objects of the kind belong to projects, it is the
	// object's path of package objectname, which holds the project, and of a service its cluster.
	Name string
	// UID is never reused, even for the same name. The store's caller sets it when the object is
	// created.
	UID string
	// Labels and Annotations are nil or hold at least one pair.
	Labels      map[string]string
	Annotations map[string]string
	// ResourceVersion is the revision of the catalog at which metadata or spec last changed.
	ResourceVersion int64
	// Generation grows with every change of the spec, from 1.
	Generation int64
	CreatedAt  time.Time
	UpdatedAt  time.Time
	// CreatedBy made the object, and UpdatedBy last changed metadata or spec, for Reason, if one was
	// given. They are empty for objects of earlier versions.
	CreatedBy string
	UpdatedBy string
	Reason    string
	// Manager is the fleet source that manages the object; zero: none does. Derived services have none.
	Manager SourceRef
}

// Meta implements Object for every kind.
func (m *Metadata) Meta() *Metadata { return m }

// Object answers every question that the catalog has of its kind. A kind without an answer does not
// compile: one that names nothing, or holds no secret, declares it.
//
// It is a *Cluster, a *Repository, a *Service, a *User, an *AccessBinding, a *Role, a *Project, an
// *IdentityProvider, a *TrustRule, a *ConfigBackend, a *ConfigSet, a *Notifier, a *GlobalService, a *RolloutPolicy, a *FleetSource,
// an *ImagePolicy or an *AccessRequest.
type Object interface {
	// Key names the object.
	Key() Key
	// Meta returns the object's own metadata, not a copy.
	Meta() *Metadata
	// Validate checks everything that can be checked without looking at other objects; the error is
	// a *fielderr.Error.
	Validate() error
	// reachable refuses an endpoint at the hub's own machine or link, as far as the object itself
	// shows it: a name may lead there, too, which is seen when it is dialled.
	reachable() error
	// normalize gives the stored form to what has several spellings. It is called on a clone.
	normalize()
	// settle takes over from the stored object what an edit cannot set, or leaves alone by saying nothing. stored is nil
	// for a new object. It is called on a clone. An error means that a secret would be sent elsewhere than it was given
	// for, or that something else is fixed.
	settle(stored Object) error
	// checkReferences refuses what the object names and does not exist, or its project may not use.
	checkReferences(ctx context.Context, tx Reader) error
	// checkSettled checks the statements of a written object about objects that the same edit may
	// write after it.
	checkSettled(ctx context.Context, tx Reader) error
	// room returns how many objects of the kind a project with these quotas may have.
	room(quotas ProjectQuotas) Room
	// secrets returns values that differ if and only if the secrets do, by the paths of their fields.
	secrets() map[string]any
	// changesRelease reports whether this edit of the stored object, which is nil for a new one, can change what services run
	// under a rollout policy: what ServiceSpec.Staged returns, configuration, and labels, which choose the policy that
	// holds the earlier spec.
	changesRelease(stored Object) bool
	// Place returns where the scopes of bindings find the object.
	Place() Place
	// sameSpec reports whether other, of the same kind, wants the same.
	sameSpec(other Object) bool
	// clone returns a copy whose metadata and spec can be set without being seen through the
	// original.
	clone() Object
}

// sameLabels reports whether two objects carry the same labels and annotations.
func sameLabels(a, b *Metadata) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

// SourceRef names a fleet source that manages an object. The hub sets it; no document can. The uid
// tells the source from a later one of the same path, which inherits nothing.
type SourceRef struct{ Path, UID string }

// validate checks the metadata of an object of that kind.
func (m *Metadata) validate(kind Kind) error {
	if err := kind.validateName("metadata.name", m.Name); err != nil {
		return err
	}
	if m.ResourceVersion < 0 {
		return fielderr.New("metadata.resource_version", "is negative")
	}
	return cmp.Or(check.Labels("metadata.labels", m.Labels), validateAnnotations(m.Annotations))
}

func validateAnnotations(annotations map[string]string) error {
	total := 0
	for key, value := range annotations {
		if err := check.Qualified("metadata.annotations["+key+"]", strings.ToLower(key)); err != nil {
			return err
		}
		total += len(key) + len(value)
	}
	if total > maxAnnotationBytes {
		return fielderr.New("metadata.annotations", "have %d bytes; at most %d are allowed", total, maxAnnotationBytes)
	}
	return nil
}
