// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/access/session"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/lookup"
)

// Look refreshes the view because the caller misses something. When it returns, the view knows
// whatever was in the store when it was called. If the store does not answer in time, the view
// stays as it is.
func (v *View) Look(ctx context.Context) { _ = v.look(ctx) }

func (v *View) look(ctx context.Context) error {
	ctx, cancel := lookup.Bounded(ctx, lookup.Timeout)
	defer cancel()
	return v.refreshes.Do(ctx)
}

// LookTwice calls find, and if that finds nothing, once more after the view has read the store:
// another replica may just have stored the missing object. err matches catalog.ErrUnavailable if the
// store did not answer: the object may exist.
func LookTwice[T any](ctx context.Context, v *View, find func() (T, bool)) (found T, ok bool, err error) {
	if found, ok = find(); ok {
		return found, true, nil
	}
	err = v.look(ctx)
	if found, ok = find(); ok {
		return found, true, nil
	}
	return found, false, err
}

// ErrIdentityEnded means that what was issued to an agent is no longer valid: its cluster was deleted, or it enrolled
// again.
var ErrIdentityEnded = errors.New("the cluster's identity has ended; obtain a new token")

// Admit returns the cluster if identityUID, made by admission.IdentityUID, is the live one's:
// credentials that were issued to its agent are still valid. It looks twice. Errors:
// ErrIdentityEnded, and one that matches catalog.ErrUnavailable if the store, which could know a
// cluster that is not known here, does not answer.
func (v *View) Admit(ctx context.Context, name, identityUID string) (*catalog.Cluster, error) {
	find := func() (*catalog.Cluster, bool) {
		c, ok := v.Catalog.Cluster(name)
		return c, ok && c.Agent.Enrolled() && identityUID == admission.IdentityUID(c.UID, c.Agent.KeyGeneration)
	}
	switch c, ok, err := LookTwice(ctx, v, find); {
	case err != nil:
		return nil, fmt.Errorf("look for cluster %q: %w", name, err)
	case !ok:
		return nil, ErrIdentityEnded
	default:
		return c, nil
	}
}

// AdmitPerson returns the person with its present groups, because a token may be an hour old. ok is
// false for a user that was deleted, even if there is another one of that name by now, and for an
// identity whose API token or session has ended. A person with a session is not a user of the hub:
// its groups come from the session, and a workload's from its trust rule. For any other person
// without a uid they come from the token alone. It looks twice; err matches catalog.ErrUnavailable if
// the store, which could know a person who is not known here, does not answer.
//
// The Person has the limit of its API token, also if the identity belongs to an access token which
// was issued for it.
func (v *View) AdmitPerson(ctx context.Context, id identity.Identity) (current Person, ok bool, err error) {
	if of, ok := session.OfCredential(id.Credential); ok {
		return v.admitSession(ctx, id, of)
	}
	if catalog.IsTrustCredential(id.Credential) {
		return TrustRules{v}.admit(ctx, id)
	}
	of, isToken := admission.APITokenOf(id.Credential)
	if id.UID == "" {
		return Person{id: id}, !isToken, nil // an API token is always a user's
	}
	return LookTwice(ctx, v, func() (Person, bool) {
		user, ok := v.Accounts().User(id.Name)
		if !ok || user.UID != id.UID {
			return Person{}, false
		}
		id.Groups = user.Spec.Groups
		if !isToken {
			return Person{id: id}, true
		}
		token, ok := v.Accounts().token(of, id.UID, time.Now())
		return Person{id: id, limit: token.Limit, ends: token.ExpiresAt}, ok
	})
}

// admitSession returns the person of a session with the groups that the session has now. ok is false
// for a session that has ended, and for a name that a user of the hub has by now.
func (v *View) admitSession(ctx context.Context, id identity.Identity, of string) (current Person, ok bool, err error) {
	return LookTwice(ctx, v, func() (Person, bool) {
		s, ok := v.Accounts().Session(of)
		if _, taken := v.Accounts().User(id.Name); taken || !ok || s.Pending || s.Person != id.Name || s.Expired(time.Now()) || id.UID != "" {
			return Person{}, false
		}
		id.Groups = s.Groups
		return Person{id: id}, true
	})
}

// Plan returns the current plan of a cluster.
func (v *View) Plan(cluster string) (*plan.Plan, bool) {
	set, ok := v.plans.of(cluster)
	return set.current, ok
}

// Recent returns the plan of that version if it is the current one of the cluster, or one of the
// last that it replaced.
func (v *View) Recent(cluster, version string) (*plan.Plan, bool) {
	set, _ := v.plans.of(cluster)
	return set.find(version)
}

// Bundle finds a digest in the current plan of a cluster, in one of the last it replaced, or among
// what it was granted.
func (v *View) Bundle(cluster string, d digest.Digest) (plan.Bundle, bool) {
	set, ok := v.plans.of(cluster)
	if !ok {
		return plan.Bundle{}, false
	}
	if bundle, ok := set.bundle(d); ok {
		return bundle, true
	}
	if found, ok := v.Catalog.Cluster(cluster); ok {
		return v.grants.find(found, d)
	}
	return plan.Bundle{}, false
}

// Downloads is the view for the handler of bundles. It is safe for concurrent use.
type Downloads struct{ View *View }

// Admit is [View.Admit].
func (d Downloads) Admit(ctx context.Context, name, identityUID string) (*catalog.Cluster, error) {
	return d.View.Admit(ctx, name, identityUID)
}

// Bundle is [View.Bundle]. Before it refuses it reads the store, at most once a second for a
// cluster, because another replica may just have named the bundle to the agent. A refusal takes as
// long whether the bundle exists or not.
func (d Downloads) Bundle(cluster string, of digest.Digest) (plan.Bundle, bool) {
	bundle, ok := d.View.Bundle(cluster, of)
	if ok {
		return bundle, true
	}
	found, ok := d.View.Catalog.Cluster(cluster)
	if !ok || !d.View.lookupsOf(found).misses.Allow() {
		return plan.Bundle{}, false
	}
	_ = d.View.learn(context.Background(), found) // if the store does not answer, memory decides
	return d.View.Bundle(cluster, of)
}

// IsUndecided is [IsUndecided].
func (d Downloads) IsUndecided(cluster string) bool { return IsUndecided(d.View, cluster) }

// CatchUp keeps an agent from going back in time. When it returns nil, the view is not behind the
// plan that the agent has, whichever replica gave it. known is the version of that plan, or "" if
// the agent has none.
//
// A version that this replica never had may be newer than everything it knows. It then reads the
// store for edits and for the content of the cluster's sources, where each replica writes what it
// learns before it names that to an agent (see package resolve). Versions that it had, which is
// nearly always so, cost nothing. The error matches catalog.ErrUnavailable: the store does not
// answer, and the plan in memory might take services away from the agent.
func (v *View) CatchUp(ctx context.Context, cluster, known string) error {
	if known == "" {
		// The agent has nothing to lose, so it is given what there is.
		v.Look(ctx)
		return nil
	}
	if v.plans.recognises(cluster, known) {
		return nil
	}
	found, ok := v.Catalog.Cluster(cluster)
	if !ok {
		return nil
	}
	if err := v.learn(ctx, found); err != nil {
		return fmt.Errorf("catch up with version %s: %w", known, err)
	}
	v.plans.remember(cluster, known) // whatever the version is, this replica is past it now
	return nil
}

// learn reads what other replicas wrote that concerns a cluster. All callers for the cluster share
// one read.
func (v *View) learn(ctx context.Context, cluster *catalog.Cluster) error {
	ctx, cancel := lookup.Bounded(ctx, 2*lookup.Timeout)
	defer cancel()
	return v.lookupsOf(cluster).learning.Do(ctx)
}

func (v *View) lookupsOf(cluster *catalog.Cluster) *clusterLookups {
	return v.lookups.of(cluster.UID, func(ctx context.Context) error { return v.learnNow(ctx, cluster.Name) })
}

func (v *View) learnNow(ctx context.Context, cluster string) error {
	if err := v.look(ctx); err != nil {
		return err
	}
	var sources []catalog.Source
	_, services := v.Catalog.servicesOf(cluster)
	for _, service := range services {
		for _, source := range service.Spec.Sources {
			sources = append(sources, source.Normal())
		}
	}
	ctx, cancel := lookup.Bounded(ctx, lookup.Timeout)
	defer cancel()
	stored, err := v.p.Store.SnapshotsOf(ctx, sources)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	for source, resolution := range stored {
		v.Stored(ctx, source, resolution)
	}
	return nil
}

// Attribute adds to a report of the cluster's agent which plan entries it is about, as far as this
// replica knows. This replica may know less than others, so the addition only decides how reports
// of agents are read that do not name the entries themselves.
func (v *View) Attribute(cluster *catalog.Cluster, report *catalog.AgentReport) {
	set, ok := v.plans.of(cluster.Name) // this replica may not have computed it yet
	if !ok {
		return
	}
	seen, _ := set.find(report.PlanVersion)
	for i := range report.Services {
		stored := &report.Services[i]
		if service, ok := v.Catalog.Service(stored.Service); ok && service.UID == stored.ServiceUID {
			attributeService(stored, service, set.current, seen, v.admitted.isHeld(service))
		}
	}
}

// attributeService adds to a service's report what it is about: the entry of the plan that the
// agent has seen, which is nil if this replica does not know it, and the generation of the spec, unless the
// service is held at an earlier spec or configuration.
func attributeService(stored *catalog.StoredReport, service *catalog.Service, current, seen *plan.Plan, isHeld bool) {
	var applied plan.Entry
	isKnown := false
	if seen != nil {
		applied, isKnown = seen.Entry(service.LocalName())
	}
	if isKnown && applied.SpecDigest == stored.Report.ObservedSpecDigest {
		stored.Entry = applied.Digest
	}
	// The configuration belongs to the generation, too. The generation of a forgotten plan is unknown.
	if entry, ok := current.Entry(service.LocalName()); ok && !isHeld && entry.SpecDigest == stored.Report.ObservedSpecDigest &&
		(!isKnown || applied.ConfigDigest == entry.ConfigDigest) {
		stored.ObservedGeneration = service.Generation
	}
}
