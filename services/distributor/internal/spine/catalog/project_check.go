// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"

	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

const (
	maxShares = 64
)

// Validate implements Object.
func (p *Project) Validate() error {
	limits, quotas := p.Spec.Limits, p.Spec.Quotas
	return cmp.Or(
		p.validate(KindProject),
		check.Description(p.Spec.Description),
		fielderr.Each("spec.shares", "shares", p.Spec.Shares, maxShares, validateShare),
		limits.Repositories.Validate("spec.limits.repositories"),
		limits.Clusters.Validate("spec.limits.clusters"),
		limits.Namespaces.Validate("spec.limits.namespaces"),
		limits.ClusterScopedKinds.Validate("spec.limits.cluster_scoped_kinds"),
		limits.ServiceAccounts.Validate("spec.limits.service_accounts"),
		validateQuota("spec.quotas.services", quotas.Services),
		validateQuota("spec.quotas.repositories", quotas.Repositories),
		validateQuota("spec.quotas.bundle_bytes", quotas.BundleBytes),
		validateQuota("spec.quotas.bytes_per_bundle", quotas.BytesPerBundle),
		validateSetList(setListField, p.Spec.ConfigSets),
	)
}

func validateQuota[T int32 | int64](field string, quota *T) error {
	if quota != nil && *quota < 0 {
		return fielderr.New(field, "is negative; leave it out for no limit")
	}
	return nil
}

func validateShare(field string, share ProjectShare) error {
	switch {
	case share.Projects.isZero():
		return fielderr.New(field+".projects", "is required: names, labels, or all: true")
	case share.Repositories.isZero() && share.Clusters.isZero() && share.ConfigSets.isZero():
		return fielderr.New(field, "shares nothing; select repositories, clusters or config_sets")
	case share.Clusters.isZero() && len(share.ClusterAnnotations) > 0:
		return fielderr.New(field+".cluster_annotations", "belongs to clusters, and the share selects none")
	}
	return cmp.Or(
		share.Projects.validate(field+".projects"),
		share.Repositories.validate(field+".repositories"),
		share.Clusters.validate(field+".clusters"),
		share.ConfigSets.validate(field+".config_sets"),
		share.ClusterAnnotations.ValidateItems(field+".cluster_annotations"),
	)
}
