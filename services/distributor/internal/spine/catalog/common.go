// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"

	"github.com/google/uuid"

	"github.com/leatdev/leat/internal/contract/objectname"
)

// Member is a derived service that has nothing of its own beside a common one. A hub derives
// millions, so it makes their services only for readers.
type Member struct {
	// Common is the service without its cluster and uid. Its name is the local path.
	Common  *Service
	Cluster string
	UID     uuid.UUID
}

// Name returns the path of the service.
func (m Member) Name() string { return objectname.ServicePath(m.Common.Name, m.Cluster) }

// Service makes the service.
func (m Member) Service() *Service { return m.Common.In(m.Cluster, m.UID.String()) }

// In returns the derived service of a cluster that has nothing of its own beside a common one.
func (s *Service) In(cluster, uid string) *Service {
	next := *s
	next.Name, next.UID, next.Spec.Cluster, next.Common = objectname.ServicePath(s.Name, cluster), uid, cluster, s
	return &next
}

// IsCommon reports whether the service equals the result of In for its common one: nothing was
// decided about it alone since it was derived.
func (s *Service) IsCommon() bool {
	c := s.Common
	return c != nil && s.Exception == nil && s.Spec.isCommon(c.Spec) && s.isCommon(c.Metadata) &&
		s.SyncRequest == c.SyncRequest && s.Derived == c.Derived && s.ConfigDigest == c.ConfigDigest && s.ConfigName == c.ConfigName &&
		s.HeldConfig == c.HeldConfig && s.ConfigProblem == c.ConfigProblem && s.ConfigWaits == c.ConfigWaits
}

func (s ServiceSpec) isCommon(c ServiceSpec) bool {
	return s.Options == c.Options && s.Config == c.Config && isSameList(s.Sources, c.Sources) && isSameList(s.ConfigSets, c.ConfigSets)
}

func (m Metadata) isCommon(c Metadata) bool {
	return maps.Equal(m.Labels, c.Labels) && maps.Equal(m.Annotations, c.Annotations) &&
		m.ResourceVersion == c.ResourceVersion && m.Generation == c.Generation && m.CreatedAt.Equal(c.CreatedAt) && m.UpdatedAt.Equal(c.UpdatedAt) &&
		m.CreatedBy == c.CreatedBy && m.UpdatedBy == c.UpdatedBy && m.Reason == c.Reason && m.Manager == c.Manager
}

// isSameList reports whether two lists are one in memory.
func isSameList[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
