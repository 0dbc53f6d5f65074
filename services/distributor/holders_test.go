// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// labelled returns a cluster with a stage.
func labelled(document *fleetv1.Document, stage string) *fleetv1.Document {
	document.GetCluster().Metadata.Labels = map[string]string{"stage": stage}
	return document
}

// holdersAt returns who could delete pods, each with how: "ada by group:dev of devs as operator".
func holdersAt(t *testing.T, c *crowd, req *fleetv1.ListAccessHoldersRequest) []string {
	t.Helper()
	if req.GetAttributes() == nil {
		req.Attributes = &fleetv1.AccessAttributes{Verb: "delete", Resource: "pods"}
	}
	res, err := c.admin.ListAccessHolders(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.GetGaps()) > 0 {
		t.Errorf("got gaps %v", res.GetGaps())
	}
	var all []string
	for _, h := range res.GetHolders() {
		if h.GetReason().GetBinding() == "" {
			continue // members of leat:admins, always
		}
		text := fmt.Sprintf("%s by %s of %s as %s %s", h.GetPerson(), h.GetSubject(), h.GetReason().GetBinding(), h.GetReason().GetRoleName(), h.GetReason().GetGroups())
		for name, at := range map[string]*timestamppb.Timestamp{" from": h.GetSince(), " until": h.GetUntil()} {
			if at != nil {
				text += name
			}
		}
		all = append(all, text)
	}
	return all
}

// TestWhoCouldAtSomeTime changes everything that decides who reaches a cluster, one after another,
// and at last deletes it all. Each answer about an earlier time matches the state at that time.
func TestWhoCouldAtSomeTime(t *testing.T) {
	t.Parallel()
	before := time.Now()
	c := newCrowd(t)
	moments := map[string]*timestamppb.Timestamp{}
	mark := func(name string) { moments[name] = timestamppb.Now() }
	role := func(clusterRole typev1.AccessRole) *fleetv1.Document {
		return &fleetv1.Document{Object: &fleetv1.Document_Role{Role: &fleetv1.Role{
			Metadata: &typev1.Metadata{Name: "night"}, Spec: &fleetv1.RoleSpec{ClusterRole: clusterRole},
		}}}
	}
	c.apply(t, clusterDocument("other"), labelled(clusterDocument("one"), "dev"), role(typev1.AccessRole_ACCESS_ROLE_VIEWER))
	devs := &fleetv1.AccessBindingSpec{
		Groups: []string{"dev"}, RoleName: "night",
		Clusters: &fleetv1.ClusterSelection{Labels: &fleetv1.LabelSelector{MatchLabels: map[string]string{"stage": "prod"}}},
	}
	c.bind(t, "devs", devs)
	c.join(t, "ada")
	mark("dev")
	c.apply(t, labelled(clusterDocument("one"), "prod"))
	mark("prod")
	c.apply(t, &fleetv1.Document{Object: &fleetv1.Document_User{User: &fleetv1.User{
		Metadata: &typev1.Metadata{Name: "ada"}, Spec: &fleetv1.UserSpec{Groups: []string{"dev"}},
	}}})
	mark("member")
	c.apply(t, role(typev1.AccessRole_ACCESS_ROLE_ADMIN))
	mark("stronger role")
	devs.Rules = []*typev1.AccessRule{{Verbs: []string{"get"}}}
	c.bind(t, "devs", devs)
	mark("narrowed")
	devs.Rules, devs.ExpireTime = nil, timestamppb.New(time.Now().Add(24*time.Hour))
	c.bind(t, "devs", devs)
	mark("wide again")
	ctx := t.Context()
	err1 := fleetcalls.Delete[*fleetv1.AccessBinding](ctx, c.admin, "devs")
	err2 := fleetcalls.Delete[*fleetv1.Role](ctx, c.admin, "night")
	err3 := fleetcalls.Delete[*fleetv1.User](ctx, c.admin, "ada")
	mark("unbound")
	err4 := fleetcalls.Delete[*fleetv1.Cluster](ctx, c.admin, "one")
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		t.Fatal(err1, err2, err3, err4)
	}
	for name, want := range map[string][]string{
		"dev":           nil,
		"prod":          {" by group:dev of devs as night [leat:viewers]"},
		"member":        {" by group:dev of devs as night [leat:viewers]", "ada by group:dev of devs as night [leat:viewers]"},
		"stronger role": {" by group:dev of devs as night [leat:admins]", "ada by group:dev of devs as night [leat:admins]"},
		"narrowed":      nil,
		"wide again":    {" by group:dev of devs as night [leat:admins]", "ada by group:dev of devs as night [leat:admins]"},
		"unbound":       nil,
	} {
		if got := holdersAt(t, c, &fleetv1.ListAccessHoldersRequest{Cluster: "one", Since: moments[name], Until: moments[name]}); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	got := holdersAt(t, c, &fleetv1.ListAccessHoldersRequest{Cluster: "one", Since: moments["member"], Until: moments["unbound"]})
	for i, text := range got { // the order of the two words is a map's
		got[i] = strings.Replace(text, " until from", " from until", 1)
	}
	if want := []string{
		" by group:dev of devs as night [leat:viewers] until", " by group:dev of devs as night [leat:admins] from until",
		" by group:dev of devs as night [leat:admins] from until",
		"ada by group:dev of devs as night [leat:viewers] until", "ada by group:dev of devs as night [leat:admins] from until",
		"ada by group:dev of devs as night [leat:admins] from until",
	}; !slices.Equal(got, want) {
		t.Errorf("over the whole time: got %q, want %q", got, want)
	}
	get := &fleetv1.AccessAttributes{Verb: "get", ApiGroup: "leat.dev", Resource: "clusters"}
	if got := holdersAt(t, c, &fleetv1.ListAccessHoldersRequest{Cluster: "one", Since: moments["narrowed"], Until: moments["narrowed"], Attributes: get}); len(got) != 2 {
		t.Errorf("got %q, want that the group and its member saw the cluster", got)
	}
	for name, req := range map[string]*fleetv1.ListAccessHoldersRequest{
		"FIELD_INVALID since ":     {Cluster: "one", Since: timestamppb.New(before.Add(-time.Hour))},
		"FIELD_INVALID since":      {Cluster: "one", Since: timestamppb.New(time.Now().Add(time.Hour))},
		"FIELD_INVALID until":      {Cluster: "one", Since: moments["prod"], Until: moments["dev"]},
		"FIELD_INVALID cluster":    {},
		"FIELD_INVALID attributes": {Cluster: "one", Attributes: &fleetv1.AccessAttributes{}},
		"NOT_FOUND ":               {Cluster: "none", Since: moments["dev"]},
		"NOT_FOUND":                {Cluster: "one"},
	} {
		if req.GetAttributes() == nil {
			req.Attributes = &fleetv1.AccessAttributes{Verb: "delete", Resource: "pods"}
		}
		reason, field, _ := strings.Cut(strings.TrimSpace(name), " ")
		_, err := c.admin.ListAccessHolders(ctx, req)
		wantReason(t, err, reason)
		if got := rpcerr.Metadata(err)[rpcerr.MetadataField]; !strings.HasPrefix(got, field) {
			t.Errorf("%s: got field %q (%v)", name, got, err)
		}
	}
}
