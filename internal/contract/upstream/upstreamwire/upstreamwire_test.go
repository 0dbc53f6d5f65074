// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package upstreamwire_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/contract/upstream/upstreamwire"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// fill sets every field of a message but the given ones. Of a oneof it sets the member with the
// given name.
func fill(m protoreflect.Message, member string, except ...protoreflect.Name) {
	fields := m.Descriptor().Fields()
next:
	for i := range fields.Len() {
		field := fields.Get(i)
		for _, name := range except {
			if field.Name() == name {
				continue next
			}
		}
		if oneof := field.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() && string(field.Name()) != member {
			continue
		}
		switch {
		case field.IsList():
			m.Mutable(field).List().Append(protoreflect.ValueOfString(string(field.Name())))
			m.Mutable(field).List().Append(protoreflect.ValueOfString("two"))
		case field.Message() != nil && field.Message().FullName() == "google.protobuf.Duration":
			m.Set(field, protoreflect.ValueOfMessage(durationpb.New(time.Duration(i)*time.Minute).ProtoReflect()))
		case field.Message() != nil:
			fill(m.Mutable(field).Message(), member)
		case field.Kind() == protoreflect.EnumKind:
			m.Set(field, protoreflect.ValueOfEnum(field.Enum().Values().Get(field.Enum().Values().Len()-1).Number()))
		case field.Kind() == protoreflect.BoolKind:
			m.Set(field, protoreflect.ValueOfBool(true))
		case field.Kind() == protoreflect.Int64Kind:
			m.Set(field, protoreflect.ValueOfInt64(int64(i+1)))
		default:
			m.Set(field, protoreflect.ValueOfString(string(field.Name())))
		}
	}
}

// TestEveryFieldComesBack fails for a field of the protocol that one of the two directions forgets.
func TestEveryFieldComesBack(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"basic", "bearer", "ssh", "github_app", "docker_config", "workload_identity", "none"} {
		sent := &gitcachev1.RepositoryDefinition{}
		fill(sent.ProtoReflect(), method, "name", "uid", "version", "parent") // are no part of what an upstream is
		d, err := upstreamwire.Definition(sent)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sent, upstreamwire.DefinitionMessage(d), protocmp.Transform()); diff != "" {
			t.Errorf("%s: definition (-sent +got):\n%s", method, diff)
		}

		spec := &fleetv1.RepositorySpec{}
		fill(spec.ProtoReflect(), method)
		wanted, err := upstreamwire.Definition(spec)
		if err != nil {
			t.Fatal(err)
		}
		wanted.PollInterval = d.PollInterval // the fields have other numbers
		if wanted.PublicOnly {
			t.Errorf("%s: people must not say of themselves where they may lead", method)
		}
		wanted.PublicOnly = d.PublicOnly
		if wanted != d {
			t.Errorf("%s: got another definition from a spec than from a definition", method)
		}
		shown := proto.CloneOf(spec)
		shown.Credential, shown.WebhookSecret, shown.PollInterval = nil, nil, sent.GetPollInterval()
		if diff := cmp.Diff(shown, upstreamwire.SpecMessage(wanted), protocmp.Transform()); diff != "" {
			t.Errorf("%s: spec (-want +got):\n%s", method, diff)
		}
	}
}

func TestWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	d, err := upstreamwire.Definition(&fleetv1.RepositorySpec{
		Url: "https://git.invalid/demo", Credential: &gitcachev1.Credential{AllowPlainHttp: true},
	})
	if want := (upstream.Definition{URL: "https://git.invalid/demo"}); err != nil || d != want {
		t.Errorf("got %+v, %v, want %+v", d, err, want)
	}
	if got := upstreamwire.DefinitionMessage(d); got.GetType() != gitcachev1.RepositoryType_REPOSITORY_TYPE_GIT || got.GetPollInterval() != nil {
		t.Errorf("got %v, want Git without an interval", got)
	}
}

// TestWhatThisVersionDoesNotKnow is refused, at the latest by the validation.
func TestWhatThisVersionDoesNotKnow(t *testing.T) {
	t.Parallel()
	const url = "https://git.invalid/demo"
	for want, m := range map[string]*fleetv1.RepositorySpec{
		"poll_interval":     {Url: url, PollInterval: &durationpb.Duration{Seconds: 1, Nanos: -1}},
		"type":              {Url: url, Type: 9},
		"verification.mode": {Url: url, Verification: &gitcachev1.Verification{Mode: 9}},
	} {
		d, err := upstreamwire.Definition(m)
		if err == nil {
			err = d.Validate()
		}
		if field, ok := errors.AsType[*fielderr.Error](err); !ok || field.Path != want {
			t.Errorf("got %v, want an error at %q", err, want)
		}
	}
	d, err := upstreamwire.Definition(&fleetv1.RepositorySpec{Url: url, Verification: &gitcachev1.Verification{}})
	if err != nil || d.Validate() == nil {
		t.Errorf("got %+v, %v, want a verification without a mode refused", d, err)
	}

	// Artifacts have one mode only, which need not be written.
	d, err = upstreamwire.Definition(&fleetv1.RepositorySpec{
		Type: gitcachev1.RepositoryType_REPOSITORY_TYPE_OCI, Url: "oci://registry.invalid/web", Verification: &gitcachev1.Verification{CosignKeys: "key"},
	})
	if err != nil || d.Verification.Mode != upstream.ModeArtifact {
		t.Errorf("got %+v, %v, want the mode of artifacts", d.Verification, err)
	}
}
