// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Service is a workload that one cluster runs from one or more sources. Its name holds its cluster,
// so another cluster may have a service that people call the same.
type Service struct {
	Metadata
	Spec ServiceSpec
	// SyncRequest names the latest request for a sync. Edits leave it alone.
	SyncRequest string
	// ConfigDigest names the stored configuration, secrets included; "" where there is none. The
	// store sets it.
	ConfigDigest string
	// ConfigName names the configuration as people wrote it, without the values of back ends: see
	// [StagedConfig]. Empty: it cannot be staged, because a layer refers to a missing value. The store
	// sets it.
	ConfigName string
	// HeldConfig is the configuration that the service receives while a rollout holds it at another
	// configuration than its own. Nil: it is not, or the service is derived. The store sets it.
	HeldConfig *HeldConfig
	// ConfigProblem is the problem of the configuration's references; nil: none. The store sets it.
	ConfigProblem *Problem
	// ConfigWaits is true while a reference of the present spec has never led to a value. Agents are not
	// given such a service. The store sets it.
	ConfigWaits bool
	// Derived is the origin of a derived service. Nil: a person wrote it. It is shared.
	Derived *Derivation
	// Common is the service as it was derived, when other clusters have the same: their service with
	// the local path for a name, and without uid and cluster. It is shared and never changed. Nil:
	// nothing is known to be common. See IsCommon.
	Common *Service
	// Exception holds people's decisions about a derived service alone; nil: none. Except sets it, and
	// puts it over the options.
	Exception *Exception
	// DerivedOptions are the options without the exception. They mean nothing without one.
	DerivedOptions *syncpolicy.Options
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

func (s *Service) checkReferences(ctx context.Context, tx Reader) error {
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
			err = cmp.Or(own.Spec.Limits.admitURL(field+".repository", own.Name, repository), fits(field, source, repository))
		}
		if err != nil {
			return err
		}
	}
	return cmp.Or(checkServiceConfig(ctx, tx, s, own, cluster), checkRoom(ctx, tx, s))
}

func (s *Service) checkSettled(context.Context, Reader) error { return nil }

func (s *Service) room(quotas ProjectQuotas) Room { return Room{Quota: quotas.Services} }

func (s *Service) secrets() map[string]any { return s.Spec.Config.secrets() }

func (s *Service) changesRelease(stored Object) bool {
	have, ok := stored.(*Service)
	return !ok || have.Spec.Staged().Digest != s.Spec.Staged().Digest || !sameConfig(have.Spec, s.Spec) || !maps.Equal(have.Labels, s.Labels)
}

// Place implements Object.
func (s *Service) Place() Place {
	return Place{Project: objectname.Project(s.Name), Cluster: s.Spec.Cluster, Service: s.Name, Namespace: s.Spec.Wanted().NamespaceOrDefault()}
}

const (
	// maxClusterBytes bounds the specs of a cluster's services together, as JSON: its agent receives
	// them in one message of 8 MiB, with what the hub adds to each.
	maxClusterBytes = 5 << 20
	// smallSpec is a size that specs without inline values stay below. It takes thousands of those to
	// fill a plan, so they are not counted.
	smallSpec = 1 << 10
)

// checkRoom refuses a large service for which the cluster's plan has no room left: without a plan,
// the agent would get no change of any service.
func checkRoom(ctx context.Context, tx Reader, service *Service) error {
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

// Validate implements Object.
func (s *Service) Validate() error {
	return cmp.Or(
		objectname.Validate("spec.cluster", s.Spec.Cluster),
		s.validate(KindService),
		s.validateCluster(),
		fielderr.Within("spec", s.Spec.Wanted().Validate(s.LocalName())),
		s.Spec.Config.validate(),
		validateSetList(setListField, s.Spec.ConfigSets),
		validateSources(s.Spec.Sources),
	)
}

// validateCluster checks that the service is named by its own cluster.
func (s *Service) validateCluster() error {
	if _, cluster := objectname.SplitService(s.Name); cluster != s.Spec.Cluster {
		return fielderr.New("spec.cluster", "%q is not the cluster %q that the service's name holds",
			objectname.Display(s.Spec.Cluster), objectname.Display(cluster))
	}
	return nil
}

// checkServiceConfig checks what the configuration of a service names.
func checkServiceConfig(ctx context.Context, tx Reader, service *Service, own *Project, cluster *Cluster) error {
	if err := checkSetList(ctx, tx, own, setListField, service.Spec.ConfigSets); err != nil {
		return err
	}
	owner, err := ownProject(ctx, tx, cluster.Name)
	if err != nil {
		return err
	}
	return checkConfig(ctx, tx, configPath, service.Spec.Config, own, new(FactsOf(service.Name, cluster, own, owner)))
}
