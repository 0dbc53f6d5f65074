// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package policywire_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// fill sets fields of a message at random; all of them when every is set. Enums get no value that
// stands for the default, and messages are not left empty: neither comes back as it went.
func fill(t *rapid.T, m protoreflect.Message, every bool) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch fields.Get(i).FullName() {
		case "leat.fleet.v1.ServiceSpec.cluster", "leat.fleet.v1.ServiceSpec.sources", "leat.fleet.v1.ServiceSpec.config",
			"leat.fleet.v1.ServiceSpec.config_sets":
			continue // are no options
		case "leat.type.v1.SyncPolicy.requires":
			continue // is derived from the options; see TestRequiredWords
		case "leat.type.v1.SyncPolicy.limits":
			continue // is the project's, not the owner's; see TestSecLimits
		}
		if every || rapid.Bool().Draw(t, string(fields.Get(i).FullName())) {
			set(t, m, fields.Get(i), every)
		}
	}
}

func set(t *rapid.T, m protoreflect.Message, field protoreflect.FieldDescriptor, every bool) {
	name := string(field.FullName())
	switch {
	case field.IsList() && field.Message() != nil && field.Message().FullName() == "leat.type.v1.RenderStep":
		step := &typev1.RenderStep{Path: "chart", Renderer: &typev1.RenderStep_Liquid{Liquid: &typev1.LiquidStep{FilesOnly: true}}}
		m.Mutable(field).List().Append(protoreflect.ValueOfMessage(step.ProtoReflect())) // package renderstepwire tests the rest
	case field.IsList() && field.Message() != nil:
		for range rapid.IntRange(1, 3).Draw(t, name) {
			item := m.Mutable(field).List().AppendMutable().Message()
			fill(t, item, every)
			explicit(item)
		}
	case field.IsList():
		m.Mutable(field).List().Append(protoreflect.ValueOfString(rapid.String().Draw(t, name)))
	case field.Message() != nil && field.Message().FullName() == "google.protobuf.Duration":
		d := durationpb.New(time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, name)))
		m.Set(field, protoreflect.ValueOfMessage(d.ProtoReflect()))
	case field.Message() != nil && field.Message().FullName() == "google.protobuf.Timestamp":
		end := &timestamppb.Timestamp{Seconds: rapid.Int64Range(0, 1<<32).Draw(t, name), Nanos: rapid.Int32Range(0, 999_999_999).Draw(t, name)}
		m.Set(field, protoreflect.ValueOfMessage(end.ProtoReflect()))
	case field.Message() != nil:
		fill(t, m.Mutable(field).Message(), true)
	case field.Kind() == protoreflect.EnumKind:
		m.Set(field, protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.IntRange(2, field.Enum().Values().Len()-1).Draw(t, name))))
	case field.Kind() == protoreflect.BoolKind:
		m.Set(field, protoreflect.ValueOfBool(true))
	case field.Kind() == protoreflect.Int32Kind:
		m.Set(field, protoreflect.ValueOfInt32(rapid.Int32Range(1, 100).Draw(t, name)))
	default:
		m.Set(field, protoreflect.ValueOfString(rapid.StringN(1, 8, -1).Draw(t, name)))
	}
}

// explicit is the form in which a conflict rule comes back.
func explicit(m protoreflect.Message) {
	if rule, ok := m.Interface().(*typev1.ConflictRule); ok && rule.GetAction() == typev1.ConflictAction_CONFLICT_ACTION_UNSPECIFIED {
		rule.Action = typev1.ConflictAction_CONFLICT_ACTION_REPORT
	}
}

// TestEveryFieldComesBack fails for a field of the protocol that one of the two directions forgets.
func TestEveryFieldComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sent, every := &typev1.SyncPolicy{}, rapid.Bool().Draw(t, "every")
		fill(t, sent.ProtoReflect(), every)
		policy, err := policywire.Policy(sent)
		if err != nil {
			t.Fatal(err)
		}
		got := policywire.PolicyMessage(policy)
		if proto.Size(sent) == 0 {
			sent = nil
		}
		if diff := cmp.Diff(sent, got, protocmp.Transform()); diff != "" {
			t.Fatalf("policy (-sent +got):\n%s", diff)
		}
		settings := &typev1.AgentSettings{}
		fill(t, settings.ProtoReflect(), every)
		read, err := policywire.Settings(settings)
		if err != nil {
			t.Fatal(err)
		}
		if proto.Size(settings) == 0 {
			settings = nil
		}
		if diff := cmp.Diff(settings, policywire.SettingsMessage(read), protocmp.Transform()); diff != "" {
			t.Fatalf("settings (-sent +got):\n%s", diff)
		}
	})
}

// TestEveryOptionComesBack is TestEveryFieldComesBack for the options of a service, in its document
// and in a plan.
func TestEveryOptionComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sent, got, every := &fleetv1.ServiceSpec{}, &fleetv1.ServiceSpec{}, rapid.Bool().Draw(t, "every")
		fill(t, sent.ProtoReflect(), every)
		options, err := policywire.Wanted(sent)
		if err != nil {
			t.Fatal(err)
		}
		policywire.SetWanted(got, options)
		if diff := cmp.Diff(sent, got, protocmp.Transform()); diff != "" {
			t.Fatalf("document (-sent +got):\n%s", diff)
		}
		planned := &distributorv1.ApplySpec{}
		fill(t, planned.ProtoReflect(), true)
		if options, err = policywire.Planned(planned); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(planned, policywire.PlanMessage(options), protocmp.Transform()); diff != "" {
			t.Fatalf("plan (-sent +got):\n%s", diff)
		}
	})
}

// TestOptionsOfNewerVersions has what this version does not know. A person is told; an agent
// renders as it can, and refuses unknown parts of the policy.
func TestOptionsOfNewerVersions(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]*fleetv1.ServiceSpec{
		"renderer":            {Renderer: 9},
		"policy.drift":        {Policy: &typev1.SyncPolicy{Drift: 9}},
		"sync.health_timeout": {Sync: &fleetv1.SyncOptions{HealthTimeout: &durationpb.Duration{Seconds: 1, Nanos: -1}}},
		"render[0]":           {Render: []*typev1.RenderStep{newer(&typev1.RenderStep{})}},
		"policy.requires":     {Policy: &typev1.SyncPolicy{Requires: []string{"render:helm"}}},
	} {
		_, err := policywire.Wanted(m)
		if field, ok := errors.AsType[*fielderr.Error](err); !ok || field.Path != want {
			t.Errorf("%v: got %v, want an error at %q", m, err, want)
		}
	}
	for want, newest := range map[string]*distributorv1.ApplySpec{
		"policy.drift":       {Namespace: "shop", Renderer: 9, Policy: &typev1.SyncPolicy{Drift: 9}},
		"policy.requires[1]": {Namespace: "shop", Policy: &typev1.SyncPolicy{Requires: []string{"render:steps", "render:ytt"}}},
		"render[1]":          {Namespace: "shop", Render: []*typev1.RenderStep{{}, newer(&typev1.RenderStep{})}},
	} {
		got, err := policywire.Planned(newest)
		field, ok := errors.AsType[*fielderr.Error](err)
		if !ok || field.Path != want || got.Namespace != "shop" || got.Renderer != syncpolicy.RenderAuto || got.Render != nil {
			t.Errorf("got %+v, %v, want the namespace beside an error at %s", got, err, want)
		}
	}
}

// TestRequiredWords marks a plan's entry with all words of this version, which it knows itself. A
// version without any words finds an unknown field in the policy.
func TestRequiredWords(t *testing.T) {
	t.Parallel()
	for _, policy := range []*typev1.SyncPolicy{nil, {Recreate: true}} {
		m := &distributorv1.ApplySpec{Policy: policy}
		policywire.Require(m, nil)
		if m.GetPolicy() != policy {
			t.Errorf("without words: got %v, want %v", m.GetPolicy(), policy)
		}
		policywire.Require(m, renderstep.WordsKnown())
		if diff := cmp.Diff(renderstep.WordsKnown(), m.GetPolicy().GetRequires()); diff != "" || m.GetPolicy().GetRecreate() != policy.GetRecreate() {
			t.Errorf("words (-want +got):\n%s", diff)
		}
		if got, err := policywire.Planned(m); err != nil || got.Policy.Recreate != policy.GetRecreate() {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

// TestDefaultsAreNothing compares written-out defaults with omitted ones.
func TestDefaultsAreNothing(t *testing.T) {
	t.Parallel()
	for _, m := range []*typev1.SyncPolicy{
		nil,
		{},
		{
			Drift: typev1.DriftMode_DRIFT_MODE_CORRECT, Adoption: typev1.Adoption_ADOPTION_ALWAYS, Tests: &typev1.Tests{},
			Deletion: &typev1.Deletion{Propagation: typev1.DeletePropagation_DELETE_PROPAGATION_FOREGROUND},
		},
	} {
		if got, err := policywire.Policy(m); err != nil || !got.IsZero() {
			t.Errorf("policy of %v: got %+v, %v, want none", m, got, err)
		}
	}
	if got := policywire.PolicyMessage(syncpolicy.Policy{}); got != nil {
		t.Errorf("got %v, want no message", got)
	}
}

// newer is a message with a field that no version has yet.
func newer[M proto.Message](m M) M {
	m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 999, protowire.VarintType), 1))
	return m
}

// TestWhatIsNotKnownIsAnError keeps a version from following half of what a newer one asked for.
func TestWhatIsNotKnownIsAnError(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]*typev1.SyncPolicy{
		"drift":                {Drift: 9},
		"adoption":             {Adoption: -1},
		"deletion.propagation": {Deletion: &typev1.Deletion{Propagation: 4}},
		"conflicts[1].action":  {Conflicts: []*typev1.ConflictRule{{}, {Action: 7}}},
		"":                     newer(&typev1.SyncPolicy{}),
		"ignore[0].objects":    {Ignore: []*typev1.IgnoreRule{{Objects: newer(&typev1.ObjectSelector{})}}},
		"windows[0]":           {Windows: []*typev1.SyncWindow{newer(&typev1.SyncWindow{})}},
		"tests.timeout":        {Tests: &typev1.Tests{Timeout: &durationpb.Duration{Seconds: 1, Nanos: -1}}},
	} {
		got, err := policywire.Policy(m)
		field, ok := errors.AsType[*fielderr.Error](err)
		if !ok || field.Path != want || !got.IsZero() {
			t.Errorf("%v: got %+v, %v, want an error at %q", m, got, err, want)
		}
	}
	if _, err := policywire.Settings(newer(&typev1.AgentSettings{})); err == nil {
		t.Error("settings with an unknown field: got no error")
	}
}

// TestSecLimits: the limits of a project come through a plan, where an empty list is not a missing one,
// and the owner of a service cannot set them.
func TestSecLimits(t *testing.T) {
	t.Parallel()
	want := &syncpolicy.Limits{Namespaces: syncpolicy.AllowList{"shop-*"}, ClusterScopedKinds: syncpolicy.AllowList{}}
	planned, err := policywire.Planned(policywire.PlanMessage(syncpolicy.Options{Policy: syncpolicy.Policy{Limits: want}}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, planned.Policy.Limits); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
	_, err = policywire.Wanted(&fleetv1.ServiceSpec{Policy: &typev1.SyncPolicy{Limits: &typev1.ServiceLimits{}}})
	if e, ok := errors.AsType[*fielderr.Error](err); !ok || e.Path != "policy.limits" {
		t.Errorf("got %v, want an error of policy.limits", err)
	}
}
