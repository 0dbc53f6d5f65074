// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive_test

import (
	"slices"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
)

// TestSecConfigurationsAreStaged edits the configuration of all services at once. The canary alone
// has it until a person approves it, also where a commit comes in the middle.
func TestSecConfigurationsAreStaged(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.wantConfigs("at first", "none", "none", "none")
	y.configure("k1")
	y.rounds(6)
	y.wantConfigs("an edit", "k1", "none", "none")
	if changes := y.record.Changes(); !slices.Equal(changes, []string{"configuration k1"}) {
		t.Errorf("got that the rollout changes %q", changes)
	}
	y.configure("k2")
	y.contents[app] = content(app, "c2")
	y.rounds(6)
	y.wantConfigs("another edit in the middle", "k1", "none", "none")
	y.lead() // another replica continues
	y.approve()
	y.rounds(12)
	y.wantConfigs("the first edit was approved", "k2", "k1", "k1")
	y.want("with the commit of the second rollout", "a  app c2", "b  app c1", "c  app c1")
	if changes := y.record.Changes(); !slices.Equal(changes, []string{"content", "configuration k2"}) {
		t.Errorf("got that the second rollout changes %q", changes)
	}
	y.approve()
	y.rounds(12)
	y.wantConfigs("both were approved", "k2", "k2", "k2")
}

// TestABadConfigurationGoesBack edits the configuration to one that fails. It is not tried again, and another
// one is.
func TestABadConfigurationGoesBack(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.badConfig = "bad"
	y.configure("good")
	y.rounds(6)
	y.approve()
	y.rounds(12)
	y.configure("bad")
	y.rounds(12)
	y.wantConfigs("a bad edit", "good", "good", "good")
	if y.record.Run.State != rollout.RolledBack || len(y.record.Refused) != 1 || y.record.Refused[0].Config != "bad" {
		t.Errorf("got %s and %v, want a rollout that went back, and the configuration refused", y.record.Run.State, y.record.Refused)
	}
	y.contents[app] = content(app, "c2")
	y.rounds(6)
	y.wantConfigs("a commit", "good", "good", "good")
	y.want("a commit with the configuration that all have", "a  app c2", "b  app c1", "c  app c1")
	y.approve()
	y.rounds(12)
	y.configure("fixed")
	y.rounds(6)
	y.wantConfigs("a fix", "fixed", "good", "good")
}

// TestACorrectedSpecBringsItsConfiguration edits spec and configuration together, so that they fail. The next spec
// comes with the same configuration, because that may be right.
func TestACorrectedSpecBringsItsConfiguration(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.bad = "bad"
	y.edit(namespace("bad"))
	y.configure("new")
	y.rounds(12)
	y.want("a bad edit", "a  app c1", "b  app c1", "c  app c1")
	y.wantConfigs("a bad edit", "none", "none", "none")
	y.edit(namespace("good"))
	y.rounds(6)
	y.want("a corrected spec", "a good app c1", "b  app c1", "c  app c1")
	y.wantConfigs("a corrected spec", "new", "none", "none")
}

// TestAnEditWaitsForItsValues edits the configuration to one of which a value was never read, to
// one that refers to a missing value, and to one that cannot be stored. Members keep their release
// meanwhile.
func TestAnEditWaitsForItsValues(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.configure("k1")
	for _, service := range y.services {
		y.waiting[service.UID] = true
	}
	y.edit(namespace("next"))
	y.rounds(6)
	y.wantConfigs("a value that was never read", "none", "none", "none")
	y.want("with its spec", "a  app c1", "b  app c1", "c  app c1")
	clear(y.waiting)
	y.configure("")
	y.rounds(6)
	y.wantConfigs("a key that is not there", "none", "none", "none")
	y.lacking["k2"] = true
	y.configure("k2")
	y.rounds(6)
	y.wantConfigs("a configuration that cannot be stored", "none", "none", "none")
	clear(y.lacking)
	y.lead()
	y.rounds(6)
	y.wantConfigs("it can be stored", "k2", "none", "none")
}

// TestARotationIsNoChange has a back end change values while a rollout waits in the canary: digests in plans differ
// before any agent has reported them. No member counts as unavailable, and none leaves its release.
func TestARotationIsNoChange(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.configure("k1")
	y.rounds(6)
	for _, service := range y.services {
		y.reports[service.UID].AppliedConfigDigest += " before the rotation"
	}
	if _, err := y.work.Round(t.Context(), y.now, true); err != nil {
		t.Fatal(err)
	}
	if down := y.record.Run.Unavailable(); down != 0 {
		t.Errorf("got %d members that are not available, want none", down)
	}
	y.wantConfigs("after the rotation", "k1", "none", "none")
}

// TestNewcomersDoNotHaveEditedSetsFirst adds a service with sets while an edit of them is with the canary alone.
func TestNewcomersDoNotHaveEditedSetsFirst(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.configure("k1")
	y.rounds(6)
	y.add("d", "")
	y.configs["d"] = "d1"
	y.rounds(4)
	y.want("in the canary", "a  app c1", "b  app c1", "c  app c1", "d waits")
	y.add("e", "")
	y.rounds(4)
	y.want("without sets", "a  app c1", "b  app c1", "c  app c1", "d waits", "e  app c1")
	y.approve()
	y.rounds(12)
	y.want("approved", "a  app c1", "b  app c1", "c  app c1", "d  app c1", "e  app c1")
}

// TestAdmissionsWithoutAConfiguration takes over services that an earlier version holds at a spec that is not
// their own. They keep that, with the configuration that they have.
func TestAdmissionsWithoutAConfiguration(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.edit(namespace("next"))
	y.rounds(6)
	y.want("before the upgrade", "a next app c1", "b  app c1", "c  app c1")
	for uid, a := range y.admitted {
		a.Config = ""
		y.admitted[uid] = a
	}
	y.record.Start.ConfigOf = nil
	y.configure("k1")
	y.rounds(1)
	y.want("after the upgrade", "a next app c1", "b  app c1", "c  app c1")
	y.wantConfigs("after the upgrade", "k1", "k1", "k1")
	y.rounds(6)
	y.configure("k2")
	y.rounds(6)
	y.wantConfigs("an edit", "k1", "k1", "k1")
	y.approve()
	y.rounds(12)
	y.want("the spec was approved", "a next app c1", "b next app c1", "c next app c1")
	y.wantConfigs("the spec was approved", "k2", "k1", "k1")
}
