// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/amount"
)

// maxWriters bounds the names in a WritersError.
const maxWriters = 5

// WritersError names image policies that write to a repository which a fleet source would read.
type WritersError struct {
	// Source and Repository are paths.
	Source, Repository string
	// Policies are the paths of some of them that the caller may see, and More counts the others.
	Policies []string
	More     int
}

// Error implements error.
func (e *WritersError) Error() string {
	names := e.Names()
	switch {
	case len(names) == 0:
		names = append(names, amount.Of(e.More, "image policy"))
	case e.More > 0:
		names = append(names, fmt.Sprintf("%d more", e.More))
	}
	return fmt.Sprintf("fleet source %q would direct more by repository %q, to which image policies write that were applied without its rights: %s",
		objectname.Display(e.Source), objectname.Display(e.Repository), strings.Join(names, ", "))
}

// Names returns the policies as people write them.
func (e *WritersError) Names() []string {
	names := make([]string, len(e.Policies))
	for i, path := range e.Policies {
		names[i] = objectname.Display(path)
	}
	return names
}

// storedSources returns the stored ones of the fleet sources among some objects.
func storedSources(ctx context.Context, tx Reader, objects []Object) (map[Key]*FleetSource, error) {
	sources := map[Key]*FleetSource{}
	for _, object := range objects {
		if object.Key().Kind != KindFleetSource {
			continue
		}
		current, err := tx.Get(ctx, object.Key())
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		if source, ok := current.(*FleetSource); ok && err == nil {
			sources[source.Key()] = source
		}
	}
	return sources, nil
}

// checkWriters returns a *WritersError if a fleet source now directs more by its repository than
// before the edit, and an image policy writes there. An edit of the policy needs the rights of each
// fleet source that reads the repository; one that was applied earlier has not been held to the
// rights that are new. So it is suspended first, and resuming it is an edit. It is called when all
// objects are stored, because the same edit may suspend policies.
func checkWriters(ctx context.Context, tx Tx, guard Guard, before *FleetSource, object Object) error {
	source, ok := object.(*FleetSource)
	if !ok || !source.gains(before) {
		return nil
	}
	all, err := tx.AllOf(ctx, KindImagePolicy)
	if err != nil {
		return err
	}
	isReader := before != nil && before.Spec.Source.Repository == source.Spec.Source.Repository
	policies := slices.DeleteFunc(PlainOf[*ImagePolicy](all), func(p *ImagePolicy) bool {
		return !p.Spec.WritesTo(source.Spec.Source.Repository) || p.Spec.Suspended ||
			p.ResourceVersion == tx.Revision() || // the author of this edit, who holds the source's rights, edits the policy, too
			isReader && p.Manager == source.Ref() // the repository's committers have written it
	})
	if len(policies) == 0 {
		return nil
	}
	slices.SortFunc(policies, func(a, b *ImagePolicy) int { return strings.Compare(a.Name, b.Name) })
	refusal := &WritersError{Source: source.Name, Repository: source.Spec.Source.Repository}
	for _, policy := range policies {
		if len(refusal.Policies) < maxWriters && guard.Sees(policy) {
			refusal.Policies = append(refusal.Policies, policy.Name)
		} else {
			refusal.More++
		}
	}
	return refusal
}

// gains reports whether the source reads another repository than before, or acts with rights that
// it did not have. before is nil for a new source.
func (f *FleetSource) gains(before *FleetSource) bool {
	if before == nil || f.Spec.Source.Repository != before.Spec.Source.Repository {
		return true
	}
	had, has := before.Rights(), f.Rights()
	if has.Role != had.Role && had.Role != RoleAdmin {
		return true
	}
	switch {
	case had.Hub:
		return false
	case has.Hub:
		return true
	case had.Projects.All:
		return false
	case has.Projects.All:
		return true
	}
	return slices.ContainsFunc(has.Projects.Names, func(name string) bool { return !slices.Contains(had.Projects.Names, name) })
}
