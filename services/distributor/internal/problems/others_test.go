// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package problems_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/problems"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestProblemsBesideServices covers each state that is a problem, and the states that are not problems.
func TestProblemsBesideServices(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	policy := &catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "shop.web"}}
	source := &catalog.FleetSource{Metadata: catalog.Metadata{Name: "tree"}}
	image := &catalog.ImagePolicy{Metadata: catalog.Metadata{Name: "shop.web"}}
	backend := &catalog.ConfigBackend{Metadata: catalog.Metadata{Name: "vault"}}
	notifier := &catalog.Notifier{Metadata: catalog.Metadata{Name: "chat"}}
	silent := &catalog.Notifier{Metadata: catalog.Metadata{Name: "chat"}, Spec: catalog.NotifierSpec{Suspended: true}}
	global := &catalog.GlobalService{Metadata: catalog.Metadata{Name: "web"}}
	service := &catalog.Service{Metadata: catalog.Metadata{Name: "web@demo"}, Spec: catalog.ServiceSpec{Cluster: "demo"}}
	release := func(run rollout.Header) []problems.Item {
		return problems.OfRollout(policy, problems.ReleaseOf(7, &run))
	}
	of := func(why reason.Reason) *catalog.Problem {
		return &catalog.Problem{Reason: why, Message: "the message", Since: at}
	}
	for _, test := range []struct {
		name     string
		items    []problems.Item
		severity problems.Severity
		reason   reason.Reason
		message  string
		since    time.Time
	}{
		{"running", release(rollout.Header{State: rollout.Running}), problems.None, 0, "", time.Time{}},
		{"completed", release(rollout.Header{State: rollout.Completed, EndedAt: at}), problems.None, 0, "", time.Time{}},
		{"waits for members", release(rollout.Header{State: rollout.Running, Blocked: rollout.Blocked{By: rollout.ByMember, Why: "x"}}), problems.None, 0, "", time.Time{}},
		{"approval", release(rollout.Header{
			State: rollout.Running, Blocked: rollout.Blocked{By: rollout.ByPerson, Why: "wave \"canary\" waits for 1 more to approve"},
			Waves: []rollout.WaveState{{Name: "canary", AskedAt: at}},
		}), problems.Degraded, reason.RolloutStopped, "rollout 7 waits for a person: wave \"canary\" waits", at},
		{"halted", release(rollout.Header{State: rollout.Halted, Stop: rollout.Stop{Why: "2 failed"}}), problems.Failed, reason.RolloutStopped, "2 failed", time.Time{}},
		{"paused", release(rollout.Header{State: rollout.Paused, Stop: rollout.Stop{Why: "pause by ada"}}), problems.Warning, reason.RolloutStopped, "is paused: pause by ada", time.Time{}},
		{"goes back", release(rollout.Header{State: rollout.RollingBack, Stop: rollout.Stop{Why: "2 failed"}}), problems.Failed, reason.RolloutStopped, "goes back: 2 failed", time.Time{}},
		{"went back", release(rollout.Header{State: rollout.RolledBack, Stop: rollout.Stop{Why: "2 failed"}, EndedAt: at}), problems.Failed, reason.RolloutStopped, "went back: 2 failed", at},
		{"taken back", release(rollout.Header{State: rollout.RolledBack, Stop: rollout.Stop{Why: "rollback by ada"}, EndedAt: at}), problems.Warning, reason.RolloutStopped, "went back", at},

		{"as many services as a rollout can have", problems.OfSize(policy, rollout.MaxMembers), problems.None, 0, "", time.Time{}},
		{"too many", problems.OfSize(policy, rollout.MaxMembers+1), problems.Degraded, reason.RolloutTooLarge, "covers 200001 services", time.Time{}},

		{"source is well", problems.OfFleetSource(source, nil, 0), problems.None, 0, "", time.Time{}},
		{"documents", problems.OfFleetSource(source, of(reason.FleetSourceDocuments), 0), problems.Failed, reason.FleetSourceDocuments, "the message", at},
		{"conflict", problems.OfFleetSource(source, of(reason.FleetSourceConflict), 0), problems.Degraded, reason.FleetSourceConflict, "the message", at},
		{"held", problems.OfFleetSource(source, of(reason.FleetSourceHeld), 3), problems.Degraded, reason.FleetSourceHeld, "the message", at},
		{"held alone", problems.OfFleetSource(source, nil, 3), problems.Degraded, reason.FleetSourceHeld, "would remove 3 objects", time.Time{}},
		{"not fetched yet", problems.OfFleetSource(source, of(reason.RepositoryNotReady), 0), problems.Waiting, reason.RepositoryNotReady, "the message", at},

		{"image is well", problems.OfImagePolicy(image, nil), problems.None, 0, "", time.Time{}},
		{"image is suspended", problems.OfImagePolicy(&catalog.ImagePolicy{Spec: catalog.ImagePolicySpec{Suspended: true}}, of(reason.ImageNoMarks)), problems.None, 0, "", time.Time{}},
		{"no mark", problems.OfImagePolicy(image, of(reason.ImageNoMarks)), problems.Degraded, reason.ImageNoMarks, "the message", at},
		{"image not fetched yet", problems.OfImagePolicy(image, of(reason.RepositoryNotReady)), problems.Waiting, reason.RepositoryNotReady, "the message", at},
		{"the branch moves", problems.OfImagePolicy(image, of(reason.PushOutdated)), problems.Waiting, reason.PushOutdated, "the message", at},

		{"back end is well", problems.OfBackend(backend, nil, 0, 4, at), problems.None, 0, "", time.Time{}},
		{"back end is down", problems.OfBackend(backend, of(reason.DependencyUnavailable), 2, 4, at), problems.Degraded, reason.DependencyUnavailable, "2 of 4 paths: the message", at},
		{"back end was never read", problems.OfBackend(backend, of(reason.DependencyUnavailable), 4, 4, time.Time{}), problems.Failed, reason.DependencyUnavailable, "4 of 4 paths", at},

		{"notifier is well", problems.OfNotifier(notifier, 0, 0, "an old one", at), problems.None, 0, "", time.Time{}},
		{"dead letters", problems.OfNotifier(notifier, 2, 1, "410 Gone", at), problems.Degraded, 0, "given 2 messages up (410 Gone)", at},
		{"receiver is away", problems.OfNotifier(notifier, 0, 5, "no route", at), problems.Waiting, 0, "5 messages not sent yet", at},
		{"suspended", problems.OfNotifier(silent, 2, 5, "no route", at), problems.None, 0, "", time.Time{}},

		{"global service is well", problems.Of(&find.Row{Object: global}, nil), problems.None, 0, "", time.Time{}},
		{"removal is held", problems.Of(&find.Row{Object: global, Problem: of(reason.RemovalHeld)}, nil), problems.Degraded, reason.RemovalHeld, "the message", at},
		{"conflict of names", problems.Of(&find.Row{Object: global, Problem: of(reason.GlobalServiceConflict)}, nil), problems.Warning, reason.GlobalServiceConflict, "the message", at},

		{"pinned", problems.Of(&find.Row{Object: service, Phase: string(catalog.PhaseHealthy), Pin: &catalog.Pin{Revision: 4, At: at}}, nil), problems.Warning, 0, "pinned to revision 4", at},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.severity == problems.None {
				if len(test.items) > 0 {
					t.Fatalf("got %+v, want no problem", test.items)
				}
				return
			}
			if len(test.items) != 1 {
				t.Fatalf("got %+v, want one problem", test.items)
			}
			got := test.items[0]
			if got.Severity != test.severity || got.Reason != test.reason || !strings.Contains(got.Message, test.message) || !got.Since.Equal(test.since) {
				t.Errorf("got %+v, want severity %d, reason %s, message %q since %s", got, test.severity, test.reason, test.message, test.since)
			}
		})
	}
}

// TestPinIsBesideAFailure has both of a pinned service that fails.
func TestPinIsBesideAFailure(t *testing.T) {
	t.Parallel()
	row := &find.Row{
		Object: &catalog.Service{Metadata: catalog.Metadata{Name: "web@demo"}, Spec: catalog.ServiceSpec{Cluster: "demo"}},
		Phase:  string(catalog.PhaseFailed), Problem: &catalog.Problem{Reason: reason.ApplyRejected}, Pin: &catalog.Pin{Revision: 4},
	}
	items := problems.Of(row, nil)
	if len(items) != 2 || items[0].Severity != problems.Failed || items[1].Severity != problems.Warning || items[1].Cluster != "demo" {
		t.Errorf("got %+v, want the failure and the pin", items)
	}
}
