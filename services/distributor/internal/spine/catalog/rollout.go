// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"maps"
	"path"
	"reflect"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

// Bounds of a rollout policy.
const (
	// maxRolloutPolicies bounds the policies of a project: each visits all of its services.
	maxRolloutPolicies    = 64
	maxPolicyPatterns     = 64
	maxPolicyLabels       = 16
	maxWaves              = 32
	maxWaveClusters       = 256
	maxApprovalGroups     = 16
	maxApprovals          = 16
	maxFreezes            = 32
	maxRolloutMembers     = rollout.MaxMembers
	maxRolloutTime        = 30 * 24 * time.Hour
	maxFreezeReason       = 256
	maxApprovalGroupBytes = 256
)

// RolloutPolicy has new content of services reach them in waves.
type RolloutPolicy struct {
	Metadata
	Spec RolloutPolicySpec
}

// RolloutPolicySpec selects services of the policy's project, and sets how they come to new
// content. Its JSON is its stored form.
type RolloutPolicySpec struct {
	Description string `json:"description,omitempty"`
	// Services are patterns of names without project and cluster; none: all.
	Services []string `json:"services,omitempty"`
	// Labels and ClusterLabels are labels that the service, and its cluster, must have.
	Labels        map[string]string `json:"labels,omitempty"`
	ClusterLabels map[string]string `json:"clusterLabels,omitempty"`
	Strategy      rollout.Strategy  `json:"strategy"`
}

// Key implements Object.
func (p *RolloutPolicy) Key() Key { return Key{KindRolloutPolicy, p.Name} }

func (p *RolloutPolicy) sameSpec(other Object) bool {
	o, ok := other.(*RolloutPolicy)
	return ok && reflect.DeepEqual(p.Spec, o.Spec)
}

func (p *RolloutPolicy) clone() Object { return new(*p) }

// SpecAt implements Plain.
func (p *RolloutPolicy) SpecAt() any { return &p.Spec }

func (p *RolloutPolicy) normalize()          { p.Spec.normalize() }
func (p *RolloutPolicy) settle(Object) error { return nil }
func (p *RolloutPolicy) reachable() error    { return nil }

// checkReferences implements Object: a wave that names a cluster which its project does not have,
// and that no project shares with it, would select fewer members than its author means.
func (p *RolloutPolicy) checkReferences(ctx context.Context, tx Reader) error {
	own, err := ownProject(ctx, tx, p.Name)
	if err != nil {
		return err
	}
	var names []string
	for _, wave := range p.Spec.Strategy.Waves {
		names = append(names, wave.Clusters...)
	}
	found, err := tx.Clusters(ctx, names)
	if err != nil {
		return err
	}
	projects := map[string]*Project{}
	projectOf := func(name string) (*Project, error) {
		project := objectname.Project(name)
		if projects[project] == nil {
			if projects[project], err = ownProject(ctx, tx, name); err != nil {
				return nil, err
			}
		}
		return projects[project], nil
	}
	for i, wave := range p.Spec.Strategy.Waves {
		for j, name := range wave.Clusters {
			field := fielderr.Indexed(fielderr.Indexed("spec.waves", i)+".clusters", j)
			if err := own.mayName(Key{KindCluster, name}, found[name], field, projectOf); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *RolloutPolicy) checkSettled(context.Context, Reader) error { return nil }

func (p *RolloutPolicy) room(ProjectQuotas) Room {
	return Room{Most: maxRolloutPolicies, Words: "rollout policies"}
}

func (p *RolloutPolicy) secrets() map[string]any    { return nil }
func (p *RolloutPolicy) changesRelease(Object) bool { return false }

// Place implements Object.
func (p *RolloutPolicy) Place() Place { return Place{Project: objectname.Project(p.Name)} }

// Covers reports whether the policy selects a service, which runs in a cluster with these labels. Of
// several policies that do so, the first of ComparePolicies decides.
func (p *RolloutPolicy) Covers(service *Service, clusterLabels map[string]string) bool {
	if objectname.Project(service.Name) != objectname.Project(p.Name) {
		return false
	}
	_, local := objectname.Split(service.LocalName())
	isNamed := len(p.Spec.Services) == 0 || slices.ContainsFunc(p.Spec.Services, func(pattern string) bool {
		ok, err := path.Match(pattern, local)
		return ok && err == nil
	})
	return isNamed && hasAll(service.Labels, p.Spec.Labels) && hasAll(clusterLabels, p.Spec.ClusterLabels)
}

// SelectsLike reports whether two states of a policy cover the same services, by their selectors.
func (p *RolloutPolicy) SelectsLike(o *RolloutPolicy) bool {
	return slices.Equal(p.Spec.Services, o.Spec.Services) && maps.Equal(p.Spec.Labels, o.Spec.Labels) &&
		maps.Equal(p.Spec.ClusterLabels, o.Spec.ClusterLabels) && p.CreatedAt.Equal(o.CreatedAt)
}

func hasAll(labels, want map[string]string) bool {
	for key, value := range want {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// HasApprover reports whether a wave of the policy waits for the approval of one of these groups.
// Its members see the policy and approve that wave without a role: who may write the policy decides
// who they are.
func (p *RolloutPolicy) HasApprover(groups []string) bool {
	return slices.ContainsFunc(p.Spec.Strategy.Waves, func(w rollout.Wave) bool {
		return w.Approval != nil && slices.ContainsFunc(w.Approval.Groups, func(group string) bool { return slices.Contains(groups, group) })
	})
}

// ComparePolicies orders policies by precedence: the oldest first.
func ComparePolicies(a, b *RolloutPolicy) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Name, b.Name))
}

// settle gives the stored form to what has several spellings. It works on a clone.
func (s *RolloutPolicySpec) normalize() {
	if s.Services = slices.Clone(s.Services); len(s.Services) == 0 {
		s.Services = nil
	}
	if s.Labels = maps.Clone(s.Labels); len(s.Labels) == 0 {
		s.Labels = nil
	}
	if s.ClusterLabels = maps.Clone(s.ClusterLabels); len(s.ClusterLabels) == 0 {
		s.ClusterLabels = nil
	}
}

// Validate implements Object.
func (p *RolloutPolicy) Validate() error {
	s := p.Spec
	return cmp.Or(
		p.validate(KindRolloutPolicy),
		check.Description(s.Description),
		fielderr.Each("spec.services", "items", s.Services, maxPolicyPatterns, check.NamePattern),
		validateFewLabels("spec.labels", s.Labels),
		validateFewLabels("spec.cluster_labels", s.ClusterLabels),
		validateStrategy(s.Strategy),
	)
}

func validateFewLabels(field string, labels map[string]string) error {
	if len(labels) > maxPolicyLabels {
		return fielderr.New(field, "has %d items; at most %d are allowed", len(labels), maxPolicyLabels)
	}
	return check.Labels(field, labels)
}

func validateStrategy(s rollout.Strategy) error {
	return cmp.Or(
		validateWaves(s.Waves),
		validateUnavailable("spec.max_unavailable", s.MaxUnavailable),
		check.Within("spec.offline_after", s.OfflineAfter, time.Second, maxRolloutTime),
		check.Within("spec.fail_after", s.FailAfter, time.Second, maxRolloutTime),
		check.Within("spec.health_timeout", s.HealthTimeout, time.Second, maxRolloutTime),
		validateNumber("spec.error_budget.failed", s.Budget.Failed, maxRolloutMembers),
		check.Within("spec.error_budget.window", s.Budget.Window, time.Second, maxRolloutTime),
		fielderr.Each("spec.windows", "items", s.Windows, maxWaves, syncpolicy.ValidateWindow),
		fielderr.Each("spec.freezes", "items", s.Freezes, maxFreezes, validateFreeze),
	)
}

func validateWaves(waves []rollout.Wave) error {
	seen := map[string]bool{rollout.WaveRest: true, rollout.WaveLate: true}
	return fielderr.Each("spec.waves", "items", waves, maxWaves, func(field string, w rollout.Wave) error {
		if seen[w.Name] {
			return fielderr.New(field+".name", "%q is the name of another wave", w.Name)
		}
		seen[w.Name] = true
		return cmp.Or(
			objectname.ValidateLabel(field+".name", w.Name),
			fielderr.Each(field+".clusters", "items", w.Clusters, maxWaveClusters, objectname.Validate),
			validateFewLabels(field+".labels", w.Labels),
			validateEachOf(field, w),
			validateNumber(field+".percent", w.Percent, 100),
			validateNumber(field+".concurrent", w.Concurrent, maxRolloutMembers),
			check.Within(field+".soak", w.Soak, time.Second, maxRolloutTime),
			validateApproval(field+".approval", w.Approval),
		)
	})
}

func validateEachOf(field string, w rollout.Wave) error {
	if w.EachOf == "" && w.Count != 0 {
		return fielderr.New(field+".count", "needs each_of: how many members of each value of a label")
	}
	for name, label := range map[string]string{"each_of": w.EachOf, "order_by": w.OrderBy} {
		if label == "" {
			continue
		}
		if err := check.Labels(field+"."+name, map[string]string{label: ""}); err != nil {
			return fielderr.New(field+"."+name, "%.80q is not the key of a label", label)
		}
	}
	return validateNumber(field+".count", w.Count, maxRolloutMembers)
}

func validateApproval(field string, a *rollout.Approval) error {
	if a == nil {
		return nil
	}
	return cmp.Or(
		validateNumber(field+".count", a.Count, maxApprovals),
		fielderr.Each(field+".groups", "items", a.Groups, maxApprovalGroups, func(field, group string) error {
			if group == "" || len(group) > maxApprovalGroupBytes {
				return fielderr.New(field, "has %d bytes; from 1 to %d are allowed", len(group), maxApprovalGroupBytes)
			}
			return nil
		}),
	)
}

func validateUnavailable(field string, s rollout.Share) error {
	if s.Count < 0 || s.Count > maxRolloutMembers || s.Percent < 0 || s.Percent > 100 {
		return fielderr.New(field, "is out of range: a number up to %d, or a percentage from 1%% to 100%%", maxRolloutMembers)
	}
	return nil
}

func validateNumber(field string, n, most int) error {
	if n < 0 || n > most {
		return fielderr.New(field, "is %d; from 0 to %d are allowed", n, most)
	}
	return nil
}

func validateFreeze(field string, f rollout.Freeze) error {
	switch {
	case f.From.IsZero():
		return fielderr.New(field+".from", "is required")
	case !f.Until.After(f.From):
		return fielderr.New(field+".until", "is not after from")
	case len(f.Reason) > maxFreezeReason:
		return fielderr.New(field+".reason", "has %d bytes; at most %d are allowed", len(f.Reason), maxFreezeReason)
	}
	return nil
}

// Admission holds the spec and content with which a service is planned instead of its own spec and
// its sources' present content.
type Admission struct {
	ServiceUID string
	// Service is the service's name.
	Service string
	// Run is the rollout that admitted Content; empty for what the service had when a policy first
	// covered it.
	Run string
	// Content is the admitted content. Nil: rollouts do not decide about the service.
	Content []HeldSource
	// Spec is the admitted part of the service's spec; Content is of its sources. Nil beside Content:
	// an earlier version, which staged content alone, wrote the admission, and the service has its own
	// spec.
	Spec *StagedSpec
	// Config names what rollouts admitted of the service's configuration. Empty beside Content: an earlier
	// version wrote the admission, and the service has its own configuration.
	Config string
	// Staged is the configuration of that name, which the store sets. It is nil if there is none.
	Staged *StagedConfig
	// Pin comes before Content. Nil: the service is not pinned.
	Pin *Pin
}

// Pin is a person's decision that a service has the content of a revision. Its JSON is its stored form.
type Pin struct {
	Revision int64        `json:"revision"`
	Content  []HeldSource `json:"content"`
	By       string       `json:"by"`
	At       time.Time    `json:"at"`
	Reason   string       `json:"reason,omitempty"`
	// Until is when it ends. Zero: when a person releases it.
	Until time.Time `json:"until,omitzero"`
}

// hasEnded reports whether the pin does not count at a time.
func (p *Pin) hasEnded(at time.Time) bool { return !p.Until.IsZero() && !at.Before(p.Until) }

// AsOf returns the admission as it counts at a time: without a pin that has ended, and nil if nothing
// is left. An admission of which nothing has ended is returned itself.
func (a *Admission) AsOf(at time.Time) *Admission {
	if a == nil || a.Pin == nil || !a.Pin.hasEnded(at) {
		return a
	}
	if a.Content == nil {
		return nil
	}
	next := *a
	next.Pin = nil
	return &next
}

// NextEnd returns when the pin ends, if that is after a time; otherwise the zero time.
func (a *Admission) NextEnd(at time.Time) time.Time {
	if a == nil || a.Pin == nil || !a.Pin.Until.After(at) {
		return time.Time{}
	}
	return a.Pin.Until
}

// Release returns what rollouts admitted; zero if they do not decide about the service.
func (a *Admission) Release() Release {
	if a == nil {
		return Release{}
	}
	return Release{Spec: a.Spec, Config: a.Config, Content: a.Content}
}

// SpecFor returns the spec that a service is planned with, given its own.
func (a *Admission) SpecFor(own ServiceSpec) ServiceSpec {
	if a == nil || a.Spec == nil {
		return own
	}
	return own.At(a.Spec)
}

// Holds returns what the service has of its sources; nil if it follows them.
func (a *Admission) Holds() []HeldSource {
	switch {
	case a == nil:
		return nil
	case a.Pin != nil:
		return a.Pin.Content
	}
	return a.Content
}

// Pins keeps what people pinned services to.
type Pins interface {
	// Pin replaces the pin of a service; nil releases it. It reports whether that changed anything.
	Pin(ctx context.Context, serviceUID, service string, pin *Pin) (hasChanged bool, err error)
}
