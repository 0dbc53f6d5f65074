// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"time"

	"github.com/leatdev/leat/internal/syncpolicy"
)

// MaxSources bounds the sources of one service.
const MaxSources = 16

// Service is what one cluster runs from one or more sources.
type Service struct {
	Metadata
	Spec ServiceSpec
	// SyncRequest names the latest request for a sync. Edits leave it alone.
	SyncRequest string
	// ConfigDigest names the stored configuration, secrets included; "" where there is none. The store sets it.
	ConfigDigest string
}

// ServiceSpec is what is wanted of a service.
type ServiceSpec struct {
	Cluster string `json:"cluster"`
	// Namespace empty means "default".
	Namespace string      `json:"namespace,omitempty"`
	Sources   []Source    `json:"sources"`
	Renderer  Renderer    `json:"renderer,omitempty"`
	Sync      SyncOptions `json:"sync"`
	Paused    bool        `json:"paused,omitempty"`
	// Policy says how objects are kept. Nil means every default.
	Policy *syncpolicy.Policy `json:"policy,omitempty"`
	// DryRun has the agent report what would change, and change nothing.
	DryRun bool `json:"dryRun,omitempty"`
	// Config is nil where none is given: none for a new service, the stored one in an update. The store keeps it apart.
	Config *Config `json:"-"`
}

// SyncOptions say how a service is applied. The zero value means every default.
type SyncOptions struct {
	// Prune nil means true.
	Prune *bool `json:"prune,omitempty"`
	// CreateNamespace nil means true.
	CreateNamespace *bool `json:"createNamespace,omitempty"`
	// HealthTimeout zero means 10 min.
	HealthTimeout  time.Duration `json:"healthTimeout,omitempty"`
	ForceConflicts bool          `json:"forceConflicts,omitempty"`
	// PruneConfirmation is the digest of the objects that the agent's guard kept; "" confirms none.
	PruneConfirmation string `json:"pruneConfirmation,omitempty"`
}

// Renderer is the way manifests are made from a folder.
type Renderer string

// The renderers.
const (
	// RenderAuto is kustomize where the folder holds a kustomization file, else plain.
	RenderAuto      Renderer = ""
	RenderPlain     Renderer = "plain"
	RenderKustomize Renderer = "kustomize"
)

// Key implements Object.
func (s *Service) Key() Key { return Key{KindService, s.Name} }

// Meta implements Object.
func (s *Service) Meta() *Metadata { return &s.Metadata }

func (s *Service) sameSpec(other Object) bool {
	o, ok := other.(*Service)
	if !ok {
		return false
	}
	a, b := s.Spec, o.Spec
	return a.Cluster == b.Cluster && a.Namespace == b.Namespace && slices.Equal(a.Sources, b.Sources) &&
		a.Renderer == b.Renderer && a.Paused == b.Paused && a.Sync.equal(b.Sync) && a.Config.equal(b.Config) &&
		a.DryRun == b.DryRun && a.Policy.Equal(b.Policy)
}

func (o SyncOptions) equal(p SyncOptions) bool {
	return sameBool(o.Prune, p.Prune) && sameBool(o.CreateNamespace, p.CreateNamespace) &&
		o.HealthTimeout == p.HealthTimeout && o.ForceConflicts == p.ForceConflicts &&
		o.PruneConfirmation == p.PruneConfirmation
}

func sameBool(a, b *bool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func (s *Service) clone() Object {
	n := *s
	return &n
}
