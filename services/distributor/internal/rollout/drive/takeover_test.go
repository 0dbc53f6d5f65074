// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

var (
	app   = catalog.Source{Repository: "demo", Path: "app", Ref: catalog.Ref{Kind: catalog.RefBranch, Value: "main"}}
	extra = catalog.Source{Repository: "demo", Path: "extra", Ref: catalog.Ref{Kind: catalog.RefBranch, Value: "main"}}
	chart = catalog.Source{Repository: "charts", Chart: "web", Ref: catalog.Ref{Kind: catalog.RefSemver, Value: "1.x"}}
)

// content is the content of a source at a commit.
func content(source catalog.Source, commit string) catalog.HeldSource {
	return catalog.HeldSource{Source: source, Snapshot: catalog.Snapshot{Commit: commit, Digest: digest.FromBytes([]byte(source.Path + source.Chart + commit))}}
}

// seen is a service whose sources hold live. held is its content; none: it is a newcomer.
func seen(uid string, live []catalog.HeldSource, held ...catalog.HeldSource) drive.Seen {
	s := drive.Seen{Service: &catalog.Service{Metadata: catalog.Metadata{UID: uid, Name: uid}}, Live: live, Report: &catalog.ServiceReport{}, Config: catalog.NoConfig}
	for _, l := range live {
		s.Service.Spec.Sources = append(s.Service.Spec.Sources, l.Source)
	}
	s.Spec = s.Service.Spec.Staged()
	if len(held) > 0 {
		s.Held = &catalog.Admission{ServiceUID: uid, Content: held, Spec: s.Spec, Config: catalog.NoConfig}
	}
	return s
}

// unresolved is a newcomer whose sources were never resolved.
func unresolved(uid string, sources ...catalog.Source) drive.Seen {
	s := seen(uid, nil)
	s.Service.Spec.Sources = sources
	s.Spec = s.Service.Spec.Staged()
	return s
}

// TestNewcomers takes newcomers over beside members in all states that a policy can be in.
func TestNewcomers(t *testing.T) {
	t.Parallel()
	equal := cmpopts.EquateComparable(catalog.HeldSource{}, drive.Wish{})
	one := func(h catalog.HeldSource) []catalog.HeldSource { return []catalog.HeldSource{h} }
	old, next := content(app, "c1"), content(app, "c2")
	waiting := func(uid string) drive.Seen { return seen(uid, one(next), old) }
	begun := func(members ...drive.Seen) *drive.Record {
		policy := &catalog.RolloutPolicy{Spec: catalog.RolloutPolicySpec{Strategy: rollout.Strategy{Waves: []rollout.Wave{{Name: "canary", Percent: 10}}}}}
		record := drive.Begin(policy, members, nil, time.Unix(1e9, 0))
		if record == nil {
			t.Fatal("no rollout began")
		}
		return record
	}
	atC1 := map[drive.Wish]catalog.Snapshot{{Source: extra, Commit: "c1"}: content(extra, "c1").Snapshot}
	unchanged := catalog.HeldSource{Source: app, Snapshot: catalog.Snapshot{Commit: "c3", Digest: old.Snapshot.Digest}}
	for name, test := range map[string]struct {
		members []drive.Seen // the last one is the newcomer
		record  *drive.Record
		granted map[drive.Wish]catalog.Snapshot
		want    []catalog.HeldSource // nil: it waits
		wish    string               // the commit
	}{
		"of the same folder, in a rollout": {
			[]drive.Seen{waiting("a"), seen("new", one(next))}, begun(waiting("a")), nil, one(old), "",
		},
		"of the same folder, and the canary has the commit": {
			[]drive.Seen{seen("a", one(next), next), waiting("b"), seen("new", one(next))}, begun(waiting("a"), waiting("b")), nil, one(old), "",
		},
		"of another folder, in a rollout": {
			[]drive.Seen{waiting("a"), seen("new", one(content(extra, "c2")))}, begun(waiting("a")), nil, nil, "c1",
		},
		"of another folder, and the canary has the commit": {
			[]drive.Seen{seen("a", one(next), next), waiting("b"), seen("new", one(content(extra, "c2")))}, begun(waiting("a"), waiting("b")), nil, nil, "c1",
		},
		"of another folder, which was found": {
			[]drive.Seen{waiting("a"), seen("new", one(content(extra, "c2")))}, begun(waiting("a")), atC1, one(content(extra, "c1")), "",
		},
		"of another folder, after the commit was refused": {
			[]drive.Seen{waiting("a"), seen("new", one(content(extra, "c2")))}, nil, nil, nil, "c1",
		},
		"of another folder that was never resolved": {
			[]drive.Seen{waiting("a"), unresolved("new", extra)}, nil, nil, nil, "c1",
		},
		"of another folder, and nothing is held back": {
			[]drive.Seen{seen("a", one(next), next), seen("new", one(content(extra, "c2")))}, nil, nil, one(content(extra, "c2")), "",
		},
		"of another folder, and later commits did not change that of the others": {
			[]drive.Seen{seen("a", one(unchanged), old), seen("new", one(content(extra, "c3")))}, nil, nil, one(content(extra, "c3")), "",
		},
		"of what nobody reads": {
			[]drive.Seen{waiting("a"), seen("new", one(content(chart, "1.2.0")))}, begun(waiting("a")), nil, one(content(chart, "1.2.0")), "",
		},
		"alone": {[]drive.Seen{seen("new", one(next))}, nil, nil, one(next), ""},
	} {
		admissions, wishes := drive.TakeOver(test.members, test.record, test.granted)
		var got []catalog.HeldSource
		if len(admissions) == 1 && admissions[0].ServiceUID == "new" {
			got = admissions[0].Content
		} else if len(admissions) > 0 {
			t.Errorf("%s: got admissions %v, want the newcomer's alone", name, admissions)
		}
		if diff := cmp.Diff(test.want, got, equal); diff != "" {
			t.Errorf("%s: content (-want +got):\n%s", name, diff)
		}
		var want []drive.Wish
		if test.wish != "" {
			want = []drive.Wish{{Source: extra, Commit: test.wish}}
		}
		if diff := cmp.Diff(want, wishes, equal); diff != "" {
			t.Errorf("%s: wishes (-want +got):\n%s", name, diff)
		}
	}
}
