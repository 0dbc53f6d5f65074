// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// targets are the calls of the fleet API that are not reads, with the content of their records if
// they are refused. A new call needs a row.
var targets = map[string]string{
	"Apply":       "apply  ",
	"SyncService": "sync Service x", "SyncRepository": "sync Repository x", "PreviewService": "preview Service x",
	"CreateJoinToken": "create JoinToken x", "RevokeCluster": "revoke Cluster x", "ReleaseCluster": "release Cluster x", "CreateAccessToken": "create AccessToken ",
	"CreateToken": "create Token x", "DeleteToken": "delete Token x",
	"Delete":               "delete User x",
	"RefreshConfigBackend": "refresh ConfigBackend x",
	"CreateSession":        "create Session ", "SignOut": "sign Out ", "RevokeSession": "revoke Session x", "StartDeviceSignIn": "start DeviceSignIn ",
	"CreateSignInCode": "create SignInCode ", "SignIn": "sign In ",
	"SyncImagePolicy": "sync ImagePolicy x",
	"SyncFleetSource": "sync FleetSource x", "ConfirmFleetSource": "confirm FleetSource x",
	"ControlRollout": "control Rollout x", "ApproveRollout": "approve Rollout x", "RollbackService": "rollback Service x", "ReleaseService": "release Service x",
	"TestNotifier": "test Notifier x", "ResendNotifier": "resend Notifier x",
	"CreateBootstrapToken": "create BootstrapToken ", "RevokeBootstrapToken": "revoke BootstrapToken x",
	"CreateAccessRequest": "create AccessRequest ", "ApproveAccessRequest": "approve AccessRequest x", "DenyAccessRequest": "deny AccessRequest x",
	"WithdrawAccessRequest": "withdraw AccessRequest x",
	"RotateSealingKey":      "rotate SealingKey ", "RotateSigningKey": "rotate SigningKey ",
}

func TestTargets(t *testing.T) {
	t.Parallel()
	var methods []protoreflect.MethodDescriptor
	for _, file := range []protoreflect.FileDescriptor{
		fleetv1.File_leat_fleet_v1_fleet_proto, fleetv1.File_leat_fleet_v1_session_proto, fleetv1.File_leat_fleet_v1_keys_proto,
		fleetv1.File_leat_fleet_v1_notifier_proto, fleetv1.File_leat_fleet_v1_query_proto, fleetv1.File_leat_fleet_v1_global_service_proto, fleetv1.File_leat_fleet_v1_rollout_proto, fleetv1.File_leat_fleet_v1_fleet_source_proto,
		fleetv1.File_leat_fleet_v1_bootstrap_proto, fleetv1.File_leat_fleet_v1_access_request_proto, fleetv1.File_leat_fleet_v1_image_policy_proto,
	} {
		for i := range file.Services().Len() {
			for all, j := file.Services().Get(i).Methods(), 0; j < all.Len(); j++ {
				methods = append(methods, all.Get(j))
			}
		}
	}
	for _, method := range methods {
		options, _ := method.Options().(*descriptorpb.MethodOptions)
		name := string(method.Name())
		if options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
			continue
		}
		want, ok := targets[name]
		if !ok {
			t.Errorf("%s has no row in this test", name)
			continue
		}
		message := dynamicpb.NewMessage(method.Input())
		named(message, "x")
		got := targetOf("/leat.fleet.v1.FleetService/"+name, message)
		if text := got.Verb + " " + got.Kind + " " + got.Name; text != want {
			t.Errorf("%s: got %q, want %q", name, text, want)
		}
		for _, empty := range []proto.Message{nil, dynamicpb.NewMessage(method.Input())} {
			if got := targetOf("/leat.fleet.v1.FleetService/"+name, empty); got.Name != "" {
				t.Errorf("%s of nothing: got %v", name, got)
			}
		}
	}
}

// TestSecTargetsOfAnyKind reads the kind and the mode from requests, and no text that is not a kind.
func TestSecTargetsOfAnyKind(t *testing.T) {
	t.Parallel()
	for want, message := range map[string]proto.Message{
		"delete Role x":           &fleetv1.DeleteRequest{Kind: "Role", Name: "x"},
		"delete Service x on one": &fleetv1.DeleteRequest{Kind: "Service", Name: "x@one"},
		"delete  x":               &fleetv1.DeleteRequest{Kind: "role\n", Name: "x"},
		"create  ":                &fleetv1.ApplyRequest{Mode: fleetv1.ApplyMode_APPLY_MODE_CREATE},
		"update  ":                &fleetv1.ApplyRequest{Mode: fleetv1.ApplyMode_APPLY_MODE_UPDATE},
		"apply  ":                 &fleetv1.ApplyRequest{Mode: 17},
	} {
		procedure := strings.TrimSuffix(string(message.ProtoReflect().Descriptor().Name()), "Request")
		got := targetOf("/leat.fleet.v1.FleetService/"+procedure, message)
		text := got.Verb + " " + got.Kind + " " + got.Name
		if got.Cluster != "" {
			text += " on " + got.Cluster
		}
		if text != want {
			t.Errorf("got %q, want %q", text, want)
		}
	}
}

// named sets the name that a request holds.
func named(m *dynamicpb.Message, name string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch field := fields.Get(i); {
		case field.Kind() == protoreflect.MessageKind && !field.IsList() && field.Message().Fields().ByName("metadata") != nil:
			object := m.Mutable(field).Message()
			metadata := object.Mutable(field.Message().Fields().ByName("metadata")).Message()
			metadata.Set(metadata.Descriptor().Fields().ByName("name"), protoreflect.ValueOfString(name))
		case field.Name() == "kind":
			m.Set(field, protoreflect.ValueOfString("User"))
		case strings.Contains(" name cluster id user ", " "+string(field.Name())+" ") && field.Kind() == protoreflect.StringKind:
			m.Set(field, protoreflect.ValueOfString(name))
		}
	}
}

func TestRefusedApply(t *testing.T) {
	t.Parallel()
	document := func(name string) *fleetv1.Document {
		return &fleetv1.Document{Object: &fleetv1.Document_User{User: &fleetv1.User{Metadata: &typev1.Metadata{Name: name}}}}
	}
	two := []*fleetv1.Document{document("a"), document("b")}
	for name, tc := range map[string]struct {
		documents []*fleetv1.Document
		field     string
		want      string
	}{
		"one":         {two[:1], "", "User a"},
		"none":        {nil, "documents[0].x", " "},
		"second":      {two, "documents[1].metadata.name", "User b"},
		"no document": {two, "dry_run", " "},
		"beyond":      {two, "documents[2].x", " "},
		"below":       {two, "documents[-1].x", " "},
		"no number":   {two, "documents[x].x", " "},
		"huge":        {two, "documents[99999999999999999999].x", " "},
		"empty":       {[]*fleetv1.Document{{}}, "documents[0].object", " "},
	} {
		var err error = rpcerr.Field(tc.field, "is wrong")
		if tc.field == "" {
			err = errors.New("defect")
		}
		got := refusedTarget(catalog.Target{Verb: "apply"}, &fleetv1.ApplyRequest{Documents: tc.documents}, err)
		if text := got.Kind + " " + got.Name; text != tc.want || got.Verb != "apply" {
			t.Errorf("%s: got %s %q, want %q", name, got.Verb, text, tc.want)
		}
	}
}

// FuzzReason accepts nothing but one line of bounded, printable UTF-8.
func FuzzReason(f *testing.F) {
	for _, seed := range []string{"", "OPS-1", "f%C3%BCr alle", "%", "%0a", "%ff", strings.Repeat("a", 501), " ", "%E2%80%AE"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		text, err := reasonOf([]string{value})
		if err != nil {
			if text != "" {
				t.Errorf("got %q with an error", text)
			}
			return
		}
		if len(text) > maxReason || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("accepted %q", text)
		}
		again, err := reasonOf([]string{url.PathEscape(text)})
		if err != nil || again != text {
			t.Errorf("got %q, %v of %q", again, err, text)
		}
	})
}
