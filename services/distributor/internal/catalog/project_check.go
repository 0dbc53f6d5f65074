// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/objectname"
)

const (
	maxShares        = 64
	maxSelectedNames = 1000
	projectField     = "metadata.project"
)

// Validate implements Object.
func (p *Project) Validate() error {
	limits, quotas := p.Spec.Limits, p.Spec.Quotas
	return cmp.Or(
		p.validate(KindProject),
		validateDescription(p.Spec.Description),
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

func (s Selection) validate(field string) error {
	if s.All && (len(s.Names) > 0 || s.Labels != nil) {
		return fielderr.New(field+".all", "selects everything already; leave out names and labels, or all")
	}
	err := fielderr.Each(field+".names", "items", s.Names, maxSelectedNames, ValidateName)
	if err != nil || s.Labels == nil {
		return err
	}
	return s.Labels.validate(field + ".labels")
}

// stored returns an object as stored, and the project default even if it was never written.
func stored(ctx context.Context, tx Tx, key Key) (Object, error) {
	object, err := tx.Get(ctx, key)
	if errors.Is(err, ErrNotFound) && key == DefaultProject().Key() {
		return DefaultProject(), nil
	}
	return object, err
}

// ownProject returns the project of an object, by the object's name.
func ownProject(ctx context.Context, tx Tx, name string) (*Project, error) {
	key := Key{KindProject, objectname.Project(name)}
	object, err := stored(ctx, tx, key)
	if errors.Is(err, ErrNotFound) {
		return nil, &ReferenceError{Key: key, Path: projectField}
	}
	if err != nil {
		return nil, err
	}
	project, ok := object.(*Project)
	if !ok {
		return nil, &ReferenceError{Key: key, Path: projectField}
	}
	return project, nil
}

// referred returns the object that the field at path of an object of the project names. One of another
// project has to be shared with this one.
func (p *Project) referred(ctx context.Context, tx Tx, key Key, path string) (Object, error) {
	object, err := tx.Get(ctx, key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	if err := p.mayName(key, object, path, func(name string) (*Project, error) { return ownProject(ctx, tx, name) }); err != nil {
		return nil, err
	}
	return object, nil
}

// mayName returns an error unless the field at path of an object of the project may name an object, which is
// nil if it does not exist. projectOf returns the project of an object, by the object's name.
func (p *Project) mayName(key Key, object Object, path string, projectOf func(name string) (*Project, error)) error {
	project, name := objectname.Split(key.Name)
	if project == p.Name {
		if object == nil {
			return &ReferenceError{Key: key, Path: path}
		}
		return nil
	}
	// Both answers are the same, so that they do not disclose what another project has.
	missing := &ReferenceError{Key: key, Path: path, Project: p.Name}
	if object == nil {
		return missing
	}
	owner, err := projectOf(key.Name)
	if err != nil {
		return err
	}
	if !owner.shares(p, key.Kind, name, object.Meta().Labels) {
		return missing
	}
	return nil
}

// admitURL checks the URL of a repository that an object of the project names in field.
func (l ProjectLimits) admitURL(field, project string, r *Repository) error {
	if l.Repositories == nil || l.Repositories.Allows(oneSpelling(r.Spec.URL)) {
		return nil
	}
	return fielderr.New(field, "%s is not among the repositories that project %s allows: %s", r.Spec.URL, project, l.Repositories)
}

// oneSpelling returns the one spelling of a URL that patterns are compared with. A URL that could mean
// another one to its server, because of dots or escapes in its path, has none: it is "".
func oneSpelling(raw string) string {
	scheme, rest, isURL := strings.Cut(raw, "://")
	if strings.ContainsAny(raw, `%\?#`) {
		return ""
	}
	for segment := range strings.SplitSeq(strings.ReplaceAll(raw, ":", "/"), "/") {
		if segment == "." || segment == ".." {
			return ""
		}
	}
	if !isURL {
		host, path, _ := strings.Cut(raw, ":")
		return strings.ToLower(host) + ":" + path
	}
	if _, err := url.Parse(raw); err != nil {
		return ""
	}
	host, path, hasPath := strings.Cut(rest, "/")
	if hasPath {
		path = "/" + path
	}
	return strings.ToLower(scheme) + "://" + strings.ToLower(host) + path
}

// checkRoomInProject checks that the project of a new object exists, and has room for it.
func checkRoomInProject(ctx context.Context, tx Tx, object Object) error {
	if !object.Key().Kind.InProject() {
		return nil
	}
	own, err := ownProject(ctx, tx, object.Meta().Name)
	if err != nil {
		return err
	}
	return object.checkQuota(ctx, tx, own)
}

// checkQuota refuses another object of a kind where the project's quota, nil if it has none, is used up.
func checkQuota(ctx context.Context, tx Tx, own *Project, kind Kind, quota *int32) error {
	if quota == nil {
		return nil
	}
	has, err := tx.Count(ctx, own.Name, kind)
	if err == nil && has >= int(*quota) {
		plural := ResourceOf(kind)
		return fielderr.New(projectField, "%q has %d %s, and its quota allows %d; delete one, or raise spec.quotas.%s of the project",
			own.Name, has, plural, *quota, plural)
	}
	return err
}

// checkMost refuses another object of a kind, which words name, in a project that has the most that are allowed.
func checkMost(ctx context.Context, tx Tx, own *Project, kind Kind, most int, words string) error {
	has, err := tx.Count(ctx, own.Name, kind)
	if err == nil && has >= most {
		err = fielderr.New(projectField, "%q has %d %s already, which is the most that are allowed", own.Name, has, words)
	}
	return err
}
