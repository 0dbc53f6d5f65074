// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/digest"
)

// The audiences of calls.
const (
	anybody = "anybody"
	agents  = "agents"
	people  = "people"
	// everyone are people with and without rights.
	everyone = "everyone"
	services = "services"
)

// What callers are answered.
const (
	granted = "ok"
	invalid = "unauthenticated TOKEN_INVALID"
	denied  = "permission_denied ACCESS_DENIED"
	missing = "not_found NOT_FOUND"
)

// right is who may make one call, and what a call that is let in is answered.
type right struct {
	audience string
	// request is the JSON of the request; %s stands for the name of an object.
	request string
	// name is an object that is there, whose name tells nothing to who may not know it; empty where
	// request has no %s.
	name string
	// as is the name that admitted callers ask for; answer is their answer. Empty: name, and
	// granted.
	as, answer string
	// instead are answers for callers that get another one.
	instead map[string]string
}

// rights are all calls there are, by procedure.
var rights = map[string]right{
	"DistributorService/Enroll": {
		audience: anybody, answer: "unauthenticated JOIN_TOKEN_INVALID",
		request: `{"joinToken": "leatjoin_guessed", "publicKey": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}`,
	},
	"DistributorService/RefreshToken": {audience: anybody, answer: "unauthenticated CLUSTER_KEY_REJECTED", request: `{"assertion": "guessed"}`},
	"DistributorService/GetPlan":      {audience: agents, request: `{}`},
	"DistributorService/WatchPlan":    {audience: agents, request: `{}`},
	"DistributorService/GetDigest": {
		audience: agents, request: `{"service": "%s"}`, name: "app", instead: map[string]string{"agent of another cluster": missing},
	},
	"DistributorService/GetServiceConfig": {
		audience: agents, request: `{"service": "%s"}`, name: "app", instead: map[string]string{"agent of another cluster": missing},
	},
	"DistributorService/ReportStatus": {audience: agents, request: `{"instance": "i", "sequence": "1"}`},

	"AccessService/CheckAccess": {audience: services, request: `{"subject": "user:eve", "cluster": "%s"}`, name: "one"},

	"ReceptionService/ListReceptiveClusters": {audience: services, request: `{}`},
	"ReceptionService/CreateHubToken": {
		audience: services, request: `{"cluster": "%s", "agentKey": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}`, name: "one", answer: missing,
	},

	"FleetService/GetServerInfo":    {audience: everyone, request: `{}`},
	"FleetService/Apply":            {audience: people, request: `{"documents": [{"cluster": {"metadata": {"name": "%s"}}}], "dryRun": true}`, name: "two"},
	"FleetService/CreateCluster":    {audience: people, request: `{"cluster": {"metadata": {"name": "%s"}}}`, name: "one", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/GetCluster":       {audience: people, request: `{"name": "%s"}`, name: "one"},
	"FleetService/ListClusters":     {audience: everyone, request: `{}`},
	"FleetService/UpdateCluster":    {audience: people, request: `{"cluster": {"metadata": {"name": "%s"}}}`, name: "one", as: "none", answer: missing},
	"FleetService/DeleteCluster":    {audience: people, request: `{"name": "%s"}`, name: "one", as: "none", answer: missing},
	"FleetService/CreateRepository": {audience: people, request: `{"repository": {"metadata": {"name": "%s"}, "spec": {"url": "https://git.example/x.git"}}}`, name: "demo", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/GetRepository":    {audience: people, request: `{"name": "%s"}`, name: "demo"},
	"FleetService/ListRepositories": {audience: people, request: `{}`},
	"FleetService/UpdateRepository": {audience: people, request: `{"repository": {"metadata": {"name": "%s"}, "spec": {"url": "https://git.example/x.git"}}}`, name: "demo", as: "none", answer: missing},
	"FleetService/DeleteRepository": {audience: people, request: `{"name": "%s"}`, name: "demo", as: "none", answer: missing},
	"FleetService/CreateService":    {audience: people, request: `{"service": {"metadata": {"name": "%s"}, "spec": {"cluster": "one", "sources": [{"repository": "demo"}]}}}`, name: "app", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/GetService":       {audience: people, request: `{"name": "%s"}`, name: "app"},
	"FleetService/ListRevisions":    {audience: people, request: `{"service": "%s"}`, name: "app"},
	"FleetService/ListServices":     {audience: people, request: `{"cluster": "%s"}`, name: "one"},
	"FleetService/UpdateService":    {audience: people, request: `{"service": {"metadata": {"name": "%s"}, "spec": {"cluster": "one", "sources": [{"repository": "demo"}]}}}`, name: "app", as: "none", answer: missing},
	"FleetService/DeleteService":    {audience: people, request: `{"name": "%s"}`, name: "app", as: "none", answer: missing},
	"FleetService/SyncService":      {audience: people, request: `{"name": "%s"}`, name: "app", as: "none", answer: missing},
	"FleetService/PreviewService":   {audience: people, request: `{"name": "%s", "ref": {"branch": "next"}}`, name: "app", as: "none", answer: missing},
	"FleetService/GetServicePlan":   {audience: people, request: `{"name": "%s"}`, name: "app"},
	"FleetService/DownloadServiceBundle": {
		audience: people, request: `{"service": "%s", "digest": "sha256:` + strings.Repeat("1", 64) + `"}`, name: "app", answer: "not_found BUNDLE_NOT_FOUND",
	},
	"FleetService/WatchFleet":      {audience: people, request: `{"service": "%s"}`, name: "app"},
	"FleetService/CreateJoinToken": {audience: people, request: `{"cluster": "%s"}`, name: "one", as: "none", answer: missing},
	"FleetService/RevokeCluster":   {audience: people, request: `{"cluster": "%s"}`, name: "one", as: "none", answer: missing},
	"FleetService/CreateAccessToken": {
		audience: everyone, request: `{}`, instead: map[string]string{ // or it would never end
			"admin's access token": denied, "access token of a person without a binding": denied,
		},
	},

	"FleetService/CreateUser":          {audience: people, request: `{"user": {"metadata": {"name": "%s"}}}`, name: "eve", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/GetUser":             {audience: people, request: `{"name": "%s"}`, name: "admin"},
	"FleetService/ListUsers":           {audience: everyone, request: `{}`},
	"FleetService/UpdateUser":          {audience: people, request: `{"user": {"metadata": {"name": "%s"}, "spec": {"groups": ["leat:admins"]}}}`, name: "eve", as: "none", answer: missing},
	"FleetService/DeleteUser":          {audience: people, request: `{"name": "%s"}`, name: "eve", as: "none", answer: missing},
	"FleetService/CreateToken":         {audience: people, request: `{"user": "%s", "label": "x"}`, name: "admin", as: "none", answer: missing},
	"FleetService/ListTokens":          {audience: everyone, request: `{}`},
	"FleetService/DeleteToken":         {audience: people, request: `{"id": "%s"}`, name: "0123456789abcdef", answer: missing},
	"FleetService/CreateAccessBinding": {audience: people, request: `{"accessBinding": {"metadata": {"name": "%s"}, "spec": {"users": ["eve"], "role": "ACCESS_ROLE_ADMIN", "clusters": {"all": true}}}}`, name: "devs", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/GetAccessBinding":    {audience: people, request: `{"name": "%s"}`, name: "devs"},
	"FleetService/ListAccessBindings":  {audience: everyone, request: `{}`},
	"FleetService/UpdateAccessBinding": {audience: people, request: `{"accessBinding": {"metadata": {"name": "%s"}, "spec": {"users": ["eve"], "role": "ACCESS_ROLE_ADMIN", "clusters": {"all": true}}}}`, name: "devs", as: "none", answer: missing},
	"FleetService/DeleteAccessBinding": {audience: people, request: `{"name": "%s"}`, name: "devs", as: "none", answer: missing},
	"FleetService/CreateProject":       {audience: people, request: `{"project": {"metadata": {"name": "%s"}}}`, name: "default", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/GetProject":          {audience: people, request: `{"name": "%s"}`, name: "default"},
	"FleetService/ListProjects":        {audience: people, request: `{}`},
	"FleetService/UpdateProject":       {audience: people, request: `{"project": {"metadata": {"name": "%s"}}}`, name: "default", as: "none", answer: missing},
	"FleetService/DeleteProject":       {audience: people, request: `{"name": "%s"}`, name: "default", as: "none", answer: missing},

	"FleetService/ReviewAccess": {audience: everyone, request: `{"cluster": "one"}`},

	"FleetService/CreateIdentityProvider": {audience: people, request: `{"identityProvider": {"metadata": {"name": "%s"}, "spec": {"issuer": "https://login.example", "clientId": "leat"}}}`, name: "corp", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/GetIdentityProvider":    {audience: people, request: `{"name": "%s"}`, name: "corp"},
	"FleetService/ListIdentityProviders":  {audience: people, request: `{}`},
	"FleetService/UpdateIdentityProvider": {audience: people, request: `{"identityProvider": {"metadata": {"name": "%s"}, "spec": {"issuer": "https://login.example", "clientId": "leat"}}}`, name: "corp", as: "none", answer: missing},
	"FleetService/DeleteIdentityProvider": {audience: people, request: `{"name": "%s"}`, name: "corp", as: "none", answer: missing},

	"SessionService/GetSignInMethods":  {audience: anybody, request: `{}`},
	"SessionService/StartDeviceSignIn": {audience: anybody, request: `{}`, answer: "failed_precondition REFERENCE_NOT_FOUND"},
	"SessionService/CreateSession": {
		audience: anybody, answer: invalid, request: `{"code": "guessed", "codeVerifier": "x", "tokenHash": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}`,
	},
	"SessionService/CreateAccessToken": {
		audience: anybody, answer: invalid, request: `{"sessionToken": "guessed.leatses_guessed", "nextTokenHash": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}`,
	},
	"SessionService/SignOut":        {audience: anybody, request: `{"sessionToken": "guessed.leatses_guessed"}`},
	"SessionService/ListSessions":   {audience: everyone, request: `{}`},
	"SessionService/RevokeSession":  {audience: everyone, request: `{"id": "guessed"}`, answer: missing},
	"KeyService/GetKeys":            {audience: people, request: `{}`},
	"KeyService/RotateSealingKey":   {audience: people, request: `{"expectedId": "0000000000000000"}`, answer: "aborted VERSION_CONFLICT"},
	"KeyService/RotateSigningKey":   {audience: people, request: `{"expectedId": "0000000000000000"}`, answer: "aborted VERSION_CONFLICT"},
	"FleetService/ListAuditRecords": {audience: people, request: `{}`},
}

// entitled returns the answer for a kind of caller.
func (r right) entitled(c caller) string {
	if answer, ok := r.instead[c.name]; ok {
		return answer
	}
	answer := r.answer
	if answer == "" {
		answer = granted
	}
	switch {
	case r.audience == anybody:
		return answer
	case c.kind == stranger:
		return invalid
	case c.kind == ended && r.audience == agents:
		return invalid
	case r.letIn(c):
		return answer
	}
	return denied
}

// letIn reports whether a caller gets past the door, to where objects are looked up.
func (r right) letIn(c caller) bool {
	return r.audience == anybody || r.audience == c.kind || r.audience == everyone && (c.kind == people || c.kind == unbound)
}

func (r right) with(name string) string {
	if r.name == "" {
		return r.request
	}
	return fmt.Sprintf(r.request, name)
}

// TestAccessToCalls makes every call as every kind of caller: each is let in or refused as the
// table says, regardless of who is refused learns nothing of what is there, and nothing changes by
// it. A call that the table does not know fails the test.
func TestAccessToCalls(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	before := s.catalog(t)
	walked := 0
	for _, method := range methods() {
		name := fmt.Sprintf("%s/%s", method.Parent().Name(), method.Name())
		r, ok := rights[name]
		if !ok {
			t.Errorf("%s is not in the table of who may call what", name)
			continue
		}
		walked++
		for _, c := range s.callers {
			for _, form := range formsOf(method) {
				t.Run(name+" by "+c.name+" as "+form, func(t *testing.T) { s.check(t, method, r, c, form) })
			}
		}
	}
	if walked != len(rights) {
		t.Errorf("the table has %d calls, %d of them exist", len(rights), walked)
	}
	if diff := cmp.Diff(before, s.catalog(t)); diff != "" {
		t.Errorf("refused calls changed the catalog (-before +after):\n%s", diff)
	}
}

// check makes one call as one caller.
func (s *stage) check(t *testing.T, method protoreflect.MethodDescriptor, r right, c caller, form string) {
	name := r.name
	if r.letIn(c) && r.as != "" {
		name = r.as
	}
	got := s.call(t, method, c.token, r.with(name), form)
	if want := r.entitled(c); got.verdict() != want {
		t.Errorf("got %s (%s), want %s", got.verdict(), got.message, want)
	}
	if refused := !r.letIn(c) || r.instead[c.name] != ""; !refused || r.name == "" {
		return
	}
	// Names of the same length, so that lengths can be compared, too.
	absent := strings.Repeat("z", len(r.name))
	known, unknown := s.call(t, method, c.token, r.with(r.name), form), s.call(t, method, c.token, r.with(absent), form)
	if diff := cmp.Diff(known.echoing(r.name), unknown.echoing(absent)); diff != "" {
		t.Errorf("a refusal tells whether %s exists (-exists +does not):\n%s", r.name, diff)
	}
}

// methods are all calls of the services, as the protocol files say.
func methods() []protoreflect.MethodDescriptor {
	var all []protoreflect.MethodDescriptor
	for _, file := range []protoreflect.FileDescriptor{
		distributorv1.File_leat_distributor_v1_distributor_proto, fleetv1.File_leat_fleet_v1_fleet_proto,
		fleetv1.File_leat_fleet_v1_session_proto, fleetv1.File_leat_fleet_v1_keys_proto,
	} {
		for i := range file.Services().Len() {
			for j := range file.Services().Get(i).Methods().Len() {
				all = append(all, file.Services().Get(i).Methods().Get(j))
			}
		}
	}
	return all
}

// catalog is everything that people wrote, as the admin sees it.
func (s *stage) catalog(t *testing.T) []string {
	t.Helper()
	admin := s.fleet(t, adminToken)
	clusters, err1 := admin.ListClusters(t.Context(), &fleetv1.ListClustersRequest{})
	repositories, err2 := admin.ListRepositories(t.Context(), &fleetv1.ListRepositoriesRequest{})
	found, err3 := admin.ListServices(t.Context(), &fleetv1.ListServicesRequest{})
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	var all []string
	keep := func(metadata, spec proto.Message) { all = append(all, fmt.Sprint(metadata, spec)) }
	for _, cluster := range clusters.GetClusters() {
		keep(cluster.GetMetadata(), cluster.GetSpec())
	}
	for _, repository := range repositories.GetRepositories() {
		keep(repository.GetMetadata(), repository.GetSpec())
	}
	for _, service := range found.GetServices() {
		keep(service.GetMetadata(), service.GetSpec())
	}
	return all
}

// TestAccessToPaths does the same for what is not an RPC.
func TestAccessToPaths(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	held, absent := "/v1/bundles/"+s.content.snapshot.GetDigest(), "/v1/bundles/"+digest.FromBytes([]byte("nobody has this")).String()
	for _, c := range s.callers {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			want := denied
			switch {
			case c.name == "agent":
				want = granted
			case c.kind == agents:
				want = "not_found BUNDLE_NOT_FOUND"
			case c.kind == stranger, c.kind == ended:
				want = invalid
			}
			got := s.request(t, method, held, c.token)
			if got.at(method) != want && got.at(method) != statusOf(method, want) {
				t.Errorf("%s of a bundle by %s: got %s, want %s", method, c.name, got.at(method), want)
			}
			if want == granted {
				continue
			}
			if diff := cmp.Diff(fmt.Sprint(got), fmt.Sprint(s.request(t, method, absent, c.token))); diff != "" {
				t.Errorf("%s of a bundle by %s tells whether it exists (-exists +does not):\n%s", method, c.name, diff)
			}
		}
		for path, want := range map[string]int{
			"/.well-known/jwks.json": http.StatusOK, "/healthz": http.StatusNotFound, "/readyz": http.StatusNotFound, "/metrics": http.StatusNotFound,
			"/": http.StatusNotFound, "/v1/bundles/": http.StatusNotFound, "/v1/bundles": http.StatusNotFound, "/debug/pprof/": http.StatusNotFound,
		} {
			got := s.request(t, http.MethodGet, path, c.token)
			if got.status != want {
				t.Errorf("%s by %s: got status %d, want %d", path, c.name, got.status, want)
			}
			for _, secret := range []string{"one", "two", "app", "demo", s.content.snapshot.GetDigest(), "eve"} {
				if strings.Contains(got.body, `"`+secret+`"`) {
					t.Errorf("%s by %s: the answer names %s", path, c.name, secret)
				}
			}
		}
		health := newRequest(t, http.MethodPost, s.url+"/grpc.health.v1.Health/Check", c.token, []byte("{}"))
		health.Header.Set("Content-Type", "application/json")
		if got := s.send(t, health); got.status != http.StatusNotFound {
			t.Errorf("health by %s: got %d %s, want it at the internal listener alone", c.name, got.status, got.body)
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			if got := s.request(t, method, held, c.token); got.status != http.StatusMethodNotAllowed {
				t.Errorf("%s of a bundle by %s: got status %d, want 405", method, c.name, got.status)
			}
		}
	}
}
