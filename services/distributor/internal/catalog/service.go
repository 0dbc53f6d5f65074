// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/renderstep"
	"github.com/leatdev/leat/internal/syncpolicy"
)

// MaxSources bounds the sources of one service.
const MaxSources = 16

// Service is what one cluster runs from one or more sources. Its name holds its cluster, so another
// cluster may have a service that people call the same.
type Service struct {
	Metadata
	Spec ServiceSpec
	// SyncRequest names the latest request for a sync. Edits leave it alone.
	SyncRequest string
	// ConfigDigest names the stored configuration, secrets included; "" where there is none. The
	// store sets it.
	ConfigDigest string
	// ConfigName names the configuration as people wrote it, without the values of back ends: see
	// [StagedConfig]. Empty: it cannot be staged, because a layer refers to what is not there. The store sets
	// it.
	ConfigName string
	// HeldConfig is what the service is given while a rollout holds it at another configuration than its
	// own. Nil: it is not, or the service is derived. The store sets it.
	HeldConfig *HeldConfig
	// ConfigProblem says what is wrong with references of the configuration; nil: nothing. The store
	// sets it.
	ConfigProblem *Problem
	// ConfigWaits is true while a reference of the present spec has never led to a value. Agents are not
	// given such a service. The store sets it.
	ConfigWaits bool
	// Derived says what the service is derived from. Nil: a person wrote it. It is shared.
	Derived *Derivation
	// Common is what the service was derived as, when other clusters have the same: their service with the local
	// path for a name, and without uid and cluster. It is shared and never changed. Nil: nothing is known to be
	// common. See IsCommon.
	Common *Service
	// Exception is what people decided about a derived service alone; nil: nothing. Except sets it,
	// and puts it over the options.
	Exception *Exception
	// DerivedOptions are the options without the exception. They mean nothing without one.
	DerivedOptions *syncpolicy.Options
}

// ServiceSpec is what is wanted of a service.
type ServiceSpec struct {
	// Cluster is the path of the cluster, as it stands in the service's name.
	Cluster string
	Sources []Source
	// Options are how the manifests are applied, as the owner wrote them. Nil: every default. They
	// are never changed once they are set, so services share equal ones.
	Options *syncpolicy.Options
	// Config is nil where none is given: none for a new service, the stored one in an update. The
	// store keeps it apart.
	Config *Config
	// ConfigSets are paths of sets, lowest first. Nil or not empty, and not changed once they are set.
	ConfigSets []string
}

// Wanted returns the options, which are zero where none are given.
func (s ServiceSpec) Wanted() syncpolicy.Options {
	if s.Options == nil {
		return syncpolicy.Options{}
	}
	return *s.Options
}

// Requires returns the capability words of the agents that can carry the spec out, sorted; none if
// every agent can.
//
// A chart that nothing but its own files makes a chart is no business of the hub, which does not
// look into content. A chart of a Helm repository is one by its spec, and an agent that does not
// know Helm would read its templates as manifests.
func (s ServiceSpec) Requires() []string {
	words := s.renderWords()
	if len(s.Config.ClusterReferences()) > 0 {
		words = append(words, renderstep.ClusterReferencesWord)
	}
	if s.Config != nil && s.Config.Restart {
		words = append(words, renderstep.RestartWord)
	}
	slices.Sort(words)
	return words
}

// renderWords returns the words that the sources and their rendering need.
func (s ServiceSpec) renderWords() []string {
	hasMount := slices.ContainsFunc(s.Sources, func(s Source) bool { return s.Mount != "" })
	hasChart := slices.ContainsFunc(s.Sources, func(s Source) bool { return s.Chart != "" })
	hasSteps := s.Options != nil && len(s.Options.Render) > 0
	if !hasMount && !hasChart && !hasSteps {
		return nil // as nearly all
	}
	options := s.Wanted()
	renderers := renderstep.Renderers(options.Render)
	isDetected := !hasSteps && options.Renderer == syncpolicy.RenderAuto || slices.Contains(renderers, renderstep.Auto)
	if hasChart && isDetected {
		renderers = append(renderers, renderstep.Helm)
	}
	if len(renderers) == 0 && !hasMount {
		return nil
	}
	return renderstep.Words(renderers...)
}

// LocalName returns the name by which the cluster's agent knows the service: its path without the
// cluster.
func (s *Service) LocalName() string { return objectname.LocalPath(s.Name) }

// Key implements Object.
func (s *Service) Key() Key { return Key{KindService, s.Name} }

func (s *Service) sameSpec(other Object) bool {
	o, ok := other.(*Service)
	if !ok {
		return false
	}
	a, b := s.Spec, o.Spec
	return a.Cluster == b.Cluster && slices.Equal(a.Sources, b.Sources) && a.Wanted().Equal(b.Wanted()) && a.Config.equal(b.Config) &&
		slices.Equal(a.ConfigSets, b.ConfigSets)
}

func (s *Service) clone() Object { return new(*s) }

func (s *Service) normalize() {}

// settle implements Object: an update that leaves the configuration out keeps it.
func (s *Service) settle(stored Object) (err error) {
	had := new(Service)
	if have, ok := stored.(*Service); ok {
		had, s.SyncRequest = have, have.SyncRequest
	}
	s.Spec.Config, err = settled(s.Spec.Config, had.Spec.Config)
	return err
}

func (s *Service) reachable() error { return nil }

func (s *Service) checkReferences(ctx context.Context, tx Tx) error {
	own, err := ownProject(ctx, tx, s.Name)
	if err != nil {
		return err
	}
	if err := own.Spec.Limits.admitService(s); err != nil {
		return err
	}
	object, err := own.referred(ctx, tx, Key{KindCluster, s.Spec.Cluster}, "spec.cluster")
	if err != nil {
		return err
	}
	cluster, _ := object.(*Cluster)
	for i, source := range s.Spec.Sources {
		field := fielderr.Indexed("spec.sources", i)
		object, err := own.referred(ctx, tx, Key{KindRepository, source.Repository}, field+".repository")
		if err != nil {
			return err
		}
		if repository, ok := object.(*Repository); ok {
			err = cmp.Or(own.Spec.Limits.admitURL(field+".repository", own.Name, repository), source.fits(field, repository))
		}
		if err != nil {
			return err
		}
	}
	return cmp.Or(checkServiceConfig(ctx, tx, s, own, cluster), checkRoom(ctx, tx, s))
}

func (s *Service) checkSettled(context.Context, Tx) error { return nil }

func (s *Service) checkQuota(ctx context.Context, tx Tx, own *Project) error {
	return checkQuota(ctx, tx, own, KindService, own.Spec.Quotas.Services)
}

func (s *Service) secrets() map[string]any { return s.Spec.Config.secrets() }

func (s *Service) changesRelease(stored Object) bool {
	have, ok := stored.(*Service)
	return !ok || have.Spec.Staged().Digest != s.Spec.Staged().Digest || !sameConfig(have.Spec, s.Spec) || !maps.Equal(have.Labels, s.Labels)
}

// Place implements Object.
func (s *Service) Place() Place {
	return Place{Project: objectname.Project(s.Name), Cluster: s.Spec.Cluster, Service: s.Name, Namespace: s.Spec.Wanted().NamespaceOrDefault()}
}

// sameConfig reports whether two specs have the same configuration and the same sets.
func sameConfig(a, b ServiceSpec) bool {
	return a.Config.equal(b.Config) && slices.Equal(a.ConfigSets, b.ConfigSets)
}

const (
	// maxClusterBytes bounds the specs of a cluster's services together, as JSON: its agent receives
	// them in one message of 8 MiB, with what the hub adds to each.
	maxClusterBytes = 5 << 20
	// smallSpec is what a spec without inline values stays below. It takes thousands of those to fill
	// a plan, so they are not counted.
	smallSpec = 1 << 10
)

// checkRoom refuses a large service for which the cluster's plan has no room left: without a plan,
// the agent would get no change of any service.
func checkRoom(ctx context.Context, tx Tx, service *Service) error {
	text, err := json.Marshal(service.Spec.Options)
	if err != nil || len(text) < smallSpec {
		return err
	}
	others, err := tx.SpecBytes(ctx, service.Spec.Cluster, service.Name)
	if err != nil {
		return err
	}
	if others+len(text) > maxClusterBytes {
		return fielderr.New("spec.render", "has %d bytes, and the other services of cluster %s have %d; together at most %d are allowed; put values into files",
			len(text), objectname.Display(service.Spec.Cluster), others, maxClusterBytes)
	}
	return nil
}
