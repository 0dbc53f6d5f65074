// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// Words of a policy for what a rollout does.
const (
	onHaltRollback, onHaltPause    = "rollback", "pause"
	onOfflineSkip, onOfflineFail   = "skip", "fail"
	onNewerQueue, onNewerReplace   = "queue", "replace"
	budgetOfWave, budgetOfARollout = "wave", "rollout"
)

// rolloutPolicyOf refuses unknown fields, because they may hold rollouts back.
func rolloutPolicyOf(m *fleetv1.RolloutPolicy) (*catalog.RolloutPolicy, error) {
	metadata, err := metadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	spec := m.GetSpec()
	if len(spec.ProtoReflect().GetUnknown()) > 0 {
		return nil, fielderr.New("spec", "has a field that this version of the hub does not know")
	}
	p := &catalog.RolloutPolicy{Metadata: metadata, Spec: catalog.RolloutPolicySpec{
		Description: spec.GetDescription(), Services: spec.GetServices(), Labels: spec.GetLabels(), ClusterLabels: spec.GetClusterLabels(),
	}}
	p.Spec.Strategy, err = strategyOf(spec, objectname.Project(metadata.Name))
	return p, err
}

func strategyOf(spec *fleetv1.RolloutPolicySpec, project string) (s rollout.Strategy, err error) {
	for _, d := range []struct {
		field string
		from  *durationpb.Duration
		to    *time.Duration
	}{
		{"spec.offline_after", spec.GetOfflineAfter(), &s.OfflineAfter},
		{"spec.fail_after", spec.GetFailAfter(), &s.FailAfter},
		{"spec.health_timeout", spec.GetHealthTimeout(), &s.HealthTimeout},
		{"spec.error_budget.window", spec.GetErrorBudget().GetWindow(), &s.Budget.Window},
	} {
		if *d.to, err = durationOf(d.field, d.from); err != nil {
			return s, err
		}
	}
	s.Budget.Failed = int(spec.GetErrorBudget().GetFailed())
	for _, word := range []struct {
		field, text, zero, other string
		to                       *bool
	}{
		{"spec.error_budget.of", spec.GetErrorBudget().GetOf(), budgetOfWave, budgetOfARollout, &s.Budget.OfRun},
		{"spec.on_halt", spec.GetOnHalt(), onHaltRollback, onHaltPause, &s.PausesOnHalt},
		{"spec.on_offline", spec.GetOnOffline(), onOfflineSkip, onOfflineFail, &s.FailsOffline},
		{"spec.on_newer", spec.GetOnNewer(), onNewerQueue, onNewerReplace, &s.Replaces},
	} {
		switch word.text {
		case "", word.zero:
		case word.other:
			*word.to = true
		default:
			return s, fielderr.New(word.field, "%.80q is neither %s nor %s", word.text, word.zero, word.other)
		}
	}
	if s.MaxUnavailable, err = shareOf("spec.max_unavailable", spec.GetMaxUnavailable()); err != nil {
		return s, err
	}
	for i, m := range spec.GetWaves() {
		wave, err := waveOf(fielderr.Indexed("spec.waves", i), m, project)
		if err != nil {
			return s, err
		}
		s.Waves = append(s.Waves, wave)
	}
	s.Windows = policywire.Windows(spec.GetWindows())
	for i, m := range spec.GetFreezes() {
		field := fielderr.Indexed("spec.freezes", i)
		for _, at := range []interface{ CheckValid() error }{m.GetFrom(), m.GetUntil()} {
			if at.CheckValid() != nil {
				return s, fielderr.New(field, "needs from and until: two times")
			}
		}
		s.Freezes = append(s.Freezes, rollout.Freeze{From: m.GetFrom().AsTime(), Until: m.GetUntil().AsTime(), Reason: m.GetReason()})
	}
	return s, nil
}

// shareOf reads a number, or a percentage.
func shareOf(field, text string) (rollout.Share, error) {
	digits, isPercent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(digits)
	switch {
	case text == "":
		return rollout.Share{}, nil
	case err != nil || n <= 0:
		return rollout.Share{}, fielderr.New(field, "%.80q is neither a number, such as 3, nor a percentage, such as 5%%", text)
	case isPercent:
		return rollout.Share{Percent: n}, nil
	}
	return rollout.Share{Count: n}, nil
}

func shareText(s rollout.Share) string {
	switch {
	case s.Count > 0:
		return strconv.Itoa(s.Count)
	case s.Percent > 0:
		return fmt.Sprintf("%d%%", s.Percent)
	}
	return ""
}

func waveOf(field string, m *fleetv1.RolloutWave, project string) (rollout.Wave, error) {
	if m == nil {
		return rollout.Wave{}, fielderr.New(field, "is empty")
	}
	clusters, err := parseNames(field+".clusters", m.GetClusters(), project)
	if err != nil {
		return rollout.Wave{}, err
	}
	soak, err := durationOf(field+".soak", m.GetSoak())
	if err != nil {
		return rollout.Wave{}, err
	}
	wave := rollout.Wave{
		Name: m.GetName(), Clusters: clusters, Labels: m.GetLabels(), EachOf: m.GetEachOf(), Count: int(m.GetCount()), Percent: int(m.GetPercent()),
		OrderBy: m.GetOrderBy(), Concurrent: int(m.GetConcurrent()), Soak: soak,
	}
	if a := m.GetApproval(); a != nil {
		wave.Approval = &rollout.Approval{Groups: a.GetGroups(), Count: int(a.GetCount()), NotByAuthor: a.GetNotByAuthor()}
	}
	return wave, nil
}

func rolloutPolicyMessage(p *catalog.RolloutPolicy) *fleetv1.RolloutPolicy {
	s := p.Spec.Strategy
	m := &fleetv1.RolloutPolicy{
		Metadata: MetadataMessage(&p.Metadata),
		Spec: &fleetv1.RolloutPolicySpec{
			Description: p.Spec.Description, Services: p.Spec.Services, Labels: p.Spec.Labels, ClusterLabels: p.Spec.ClusterLabels,
			MaxUnavailable: shareText(s.MaxUnavailable), OfflineAfter: spanMessage(s.OfflineAfter), FailAfter: spanMessage(s.FailAfter),
			HealthTimeout: spanMessage(s.HealthTimeout), Windows: policywire.WindowMessages(s.Windows),
		},
		Status: &fleetv1.RolloutPolicyStatus{},
	}
	if s.Budget != (rollout.Budget{}) {
		m.Spec.ErrorBudget = &fleetv1.RolloutBudget{Failed: int32(s.Budget.Failed), Window: spanMessage(s.Budget.Window)}
		if s.Budget.OfRun {
			m.Spec.ErrorBudget.Of = budgetOfARollout
		}
	}
	if s.PausesOnHalt {
		m.Spec.OnHalt = onHaltPause
	}
	if s.FailsOffline {
		m.Spec.OnOffline = onOfflineFail
	}
	if s.Replaces {
		m.Spec.OnNewer = onNewerReplace
	}
	for _, wave := range s.Waves {
		m.Spec.Waves = append(m.Spec.Waves, waveMessage(wave, objectname.Project(p.Name)))
	}
	for _, f := range s.Freezes {
		m.Spec.Freezes = append(m.Spec.Freezes, &fleetv1.RolloutFreeze{From: catalogwire.Timestamp(f.From), Until: catalogwire.Timestamp(f.Until), Reason: f.Reason})
	}
	return m
}

func waveMessage(w rollout.Wave, project string) *fleetv1.RolloutWave {
	m := &fleetv1.RolloutWave{
		Name: w.Name, Clusters: FormatNames(w.Clusters, project), Labels: w.Labels, EachOf: w.EachOf, Count: int32(w.Count), Percent: int32(w.Percent),
		OrderBy: w.OrderBy, Concurrent: int32(w.Concurrent), Soak: spanMessage(w.Soak),
	}
	if w.Approval != nil {
		m.Approval = &fleetv1.RolloutApproval{Groups: w.Approval.Groups, Count: int32(w.Approval.Count), NotByAuthor: w.Approval.NotByAuthor}
	}
	return m
}

// spanMessage returns nil for zero.
func spanMessage(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// RolloutMessage returns a rollout without its members.
func RolloutMessage(policy *catalog.RolloutPolicy, of *drive.Outline) *fleetv1.Rollout {
	run, project := &of.Run, objectname.Project(policy.Name)
	m := &fleetv1.Rollout{
		Id: of.ID, Policy: objectname.Format(policy.Name, project), Number: of.Number, State: string(run.State), Why: run.Says(shownName),
		Wave: run.Current(), WaitsFor: WaitsFor(run, shownName), WaitsOn: string(run.Blocked.By), WaitsUntil: catalogwire.Timestamp(run.Blocked.Until),
		StartedAt: catalogwire.Timestamp(run.StartedAt), EndedAt: catalogwire.Timestamp(run.EndedAt),
		Total: int32(run.Counts.Total), Arrived: int32(run.Counts.Arrived), Failed: int32(run.Counts.Failed),
		Unavailable: int32(run.Counts.Unavailable), MaxUnavailable: int32(run.Limit()), Changes: of.Summary.Changes,
		Contents: wire.Each(of.Summary.Contents, func(c drive.Content) *fleetv1.RolloutContent {
			return &fleetv1.RolloutContent{Repository: objectname.Format(c.Repository, project), Commit: c.Commit, Version: c.Version}
		}),
	}
	m.Waves = wire.Each(run.Waves, func(w rollout.WaveState) *fleetv1.RolloutWaveStatus {
		return &fleetv1.RolloutWaveStatus{
			Name: w.Name, Total: int32(w.Total), Arrived: int32(w.Arrived), SoakSince: catalogwire.Timestamp(w.SoakSince), PassedAt: catalogwire.Timestamp(w.PassedAt), Skipped: w.IsSkipped,
			ApprovedBy: wire.Each(w.Approvals, func(g rollout.Given) string { return g.Person }),
		}
	})
	return m
}

// holdMessage returns nil if nothing holds the service.
func holdMessage(s *catalog.Service, hold *fleet.Hold) *fleetv1.ContentHold {
	if hold == nil {
		return nil
	}
	m := &fleetv1.ContentHold{Commits: wire.Each(hold.Holds(), func(h catalog.HeldSource) string { return h.Snapshot.Commit })}
	if hold.Own != nil {
		m.SpecChanges = hold.Spec.Changes(hold.Own)
	}
	if hold.IsConfigHeld {
		m.SpecChanges = append(m.SpecChanges, "configuration")
	}
	m.WaitsFor = hold.WaitsFor
	if hold.Policy != "" {
		m.Policy = objectname.Format(hold.Policy, objectname.Project(s.Name))
	}
	if pin := hold.Pin; pin != nil {
		m.PinnedRevision, m.PinnedBy, m.PinnedAt, m.Reason = pin.Revision, pin.By, catalogwire.Timestamp(pin.At), pin.Reason
		m.PinnedUntil = catalogwire.Timestamp(pin.Until)
	}
	return m
}

// RolloutMember returns the message of a member of a rollout.
func RolloutMember(policy *catalog.RolloutPolicy, of *drive.Outline, p *rollout.Progress) *fleetv1.RolloutMember {
	stage, why := of.Run.Explain(p)
	m := &fleetv1.RolloutMember{Service: objectname.Format(p.Name, objectname.Project(policy.Name)), Stage: string(stage), Why: why}
	if p.Wave >= 0 {
		m.Wave = of.Run.Waves[p.Wave].Name
	}
	return m
}

// WaitsFor returns what a rollout waits for, with the members that failed as show returns them.
func WaitsFor(run *rollout.Header, show func(rollout.Failure) string) string {
	switch {
	case run.State == rollout.Halted:
		return run.Says(show)
	case run.Blocked.By == rollout.ByMember && len(run.Blocked.Names) > 0:
		return run.Blocked.Why + ": " + strings.Join(wire.Each(run.Blocked.Names, objectname.Display), ", ")
	}
	return run.Blocked.Why
}

// shownName returns the name of a member that failed as people write it.
func shownName(f rollout.Failure) string { return objectname.Display(f.Name) }
