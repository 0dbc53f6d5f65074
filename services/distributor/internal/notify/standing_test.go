// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"slices"
	"testing"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

// TestStepsOfWhatServicesFollowFrom follows objects of these kinds through their classes.
func TestStepsOfWhatServicesFollowFrom(t *testing.T) {
	t.Parallel()
	type look struct {
		class notify.Class
		want  string
	}
	for name, tc := range map[string]struct {
		kind  catalog.Kind
		looks []look
	}{
		"rollout": {catalog.KindRolloutPolicy, []look{
			{notify.Well, ""},
			{notify.Waits, "rollout.waiting"},
			{notify.Waits, ""},
			{notify.Failing, "rollout.stopped"},
			{notify.Unknown, ""},
			{notify.Failing, ""},
			{notify.Well, "rollout.recovered"},
			{notify.Well, ""},
		}},
		"image":    {catalog.KindImagePolicy, []look{{notify.Failing, "imagepolicy.failing"}, {notify.Well, "imagepolicy.recovered"}}},
		"source":   {catalog.KindFleetSource, []look{{notify.Failing, "fleetsource.failing"}, {notify.Waits, "fleetsource.waiting"}, {notify.Well, "fleetsource.recovered"}}},
		"global":   {catalog.KindGlobalService, []look{{notify.Waits, "globalservice.waiting"}, {notify.Well, "globalservice.recovered"}}},
		"notifier": {catalog.KindNotifier, []look{{notify.Failing, "notifier.failing"}, {notify.Well, "notifier.recovered"}}},
		"request":  {catalog.KindAccessRequest, []look{{notify.Opened, "accessrequest.opened"}, {notify.Opened, ""}, {notify.Ended, "accessrequest.ended"}, {notify.Ended, ""}}},
		"back end": {catalog.KindConfigBackend, []look{{notify.Failing, "configbackend.failing"}, {notify.Well, "configbackend.recovered"}}},
	} {
		state := notify.State{}
		everything := notifier()
		everything.Spec.AllProjects = true
		for i, l := range tc.looks {
			seen := notify.Seen{
				ID: "x", Kind: tc.kind, Name: "web", Project: "shop", Class: l.class, CreatedAt: start,
				Event: notice.Event{Project: "shop", Named: "shop/web"},
			}
			var told []notify.Told
			state, told = notify.Step(state, seen, start.Add(time.Duration(i)*time.Second), []*catalog.Notifier{everything}, ids())
			if got := kindsOf(told); got != l.want {
				t.Errorf("%s, look %d: told %q, want %q", name, i, got, l.want)
			}
			for _, one := range told {
				if one.Event.Object() != "shop/web" {
					t.Errorf("%s: the event is about %q", name, one.Event.Object())
				}
			}
		}
	}
	told := notify.Seen{UID: notifier().UID, Kind: catalog.KindNotifier, Project: notifier().Project(), Class: notify.Failing}
	if notify.Covers(notifier(), told) {
		t.Error("a notifier is told of itself")
	}
	if told.UID = "another"; !notify.Covers(notifier(), told) {
		t.Error("a notifier is not told of another one of its project")
	}
	if told.Project = ""; notify.Covers(notifier(), told) {
		t.Error("a project's notifier is told of one of the hub")
	}
	backend := notify.Seen{Kind: catalog.KindConfigBackend, Project: "shop", Class: notify.Failing}
	if notify.Covers(notifier(), backend) {
		t.Error("a project's notifier is told of a back end of the hub")
	}
}

// TestProblemsHaveEvents enforces that notifiers are sent the problems of each kind that has some.
func TestProblemsHaveEvents(t *testing.T) {
	t.Parallel()
	for _, kind := range catalog.Kinds() {
		if isFollowed, has := slices.Contains(notify.ObservedKinds(), kind), kind.HasProblems() || kind == catalog.KindAccessRequest; isFollowed != has {
			t.Errorf("%s: followed: %t, and it says that it has problems: %t", kind, isFollowed, has)
		}
		if want := slices.Contains(notify.StandingKinds(), kind); notify.HasStandingEvents(kind) != want {
			t.Errorf("%s: has events in the table: %t, want %t", kind, !want, want)
		}
	}
}
