// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// The answers to callers.
const (
	granted = "ok"
	invalid = "unauthenticated TOKEN_INVALID"
	denied  = "permission_denied ACCESS_DENIED"
	missing = "not_found NOT_FOUND"
	absent  = "failed_precondition REFERENCE_NOT_FOUND"
)

// right is how one call is tried. Its option decides who may make it.
type right struct {
	// request is the JSON of the request; %s stands for the name of an object.
	request string
	// name is an object that is there, whose name tells nothing to who may not know it; empty where
	// request has no %s.
	name string
	// as is the name that admitted callers ask for; answer is their answer. Empty: name, and
	// granted.
	as, answer string
	// instead are answers for callers that get another one, by name, or anAccessToken.
	instead map[string]string
	// on is the cluster that the object belongs to; "" is the one named one.
	on string
	// isHidden is true for a call about an object that does not exist for callers without the permission, also if the
	// permission is to create something.
	isHidden bool
	// isUnlimited is true for a call that is refused to tokens with a limit, and to workloads.
	isUnlimited bool
}

// anAccessToken stands for all people who hold one.
const anAccessToken = "an access token"

// insteadFor returns the answer for a caller that gets another one.
func (r right) insteadFor(c caller) string {
	if r.isUnlimited && (c.person.limit != nil || strings.HasSuffix(c.name, " by workload")) {
		return denied
	}
	if answer := r.instead[c.name]; answer != "" || !c.isAccess {
		return answer
	}
	return r.instead[anAccessToken]
}

// rights are all calls there are, by procedure. A call about any kind has a row for each kind, and an Apply for each
// kind and mode.
var rights = map[string]right{
	"DistributorService/Enroll": {
		answer:  "unauthenticated JOIN_TOKEN_INVALID",
		request: `{"joinToken": "leatjoin_guessed", "publicKey": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}`,
	},
	"DistributorService/RefreshToken": {answer: "unauthenticated CLUSTER_KEY_REJECTED", request: `{"assertion": "guessed"}`},
	"DistributorService/GetPlan":      {request: `{}`},
	"DistributorService/WatchPlan":    {request: `{}`},
	"DistributorService/GetDigest": {
		request: `{"service": "%s"}`, name: "app", instead: map[string]string{"agent of another cluster": missing},
	},
	"DistributorService/GetServiceConfig": {
		request: `{"service": "%s"}`, name: "app", instead: map[string]string{"agent of another cluster": missing},
	},
	"DistributorService/ReportStatus": {request: `{"instance": "i", "sequence": "1"}`},

	"AccessService/CheckAccess": {request: `{"subject": "user:eve", "cluster": "%s"}`, name: "one"},

	"ReceptionService/ListReceptiveClusters": {request: `{}`},
	"ReceptionService/CreateHubToken": {
		request: `{"cluster": "%s", "agentKey": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}`, name: "one", answer: missing,
	},

	"FleetService/GetServerInfo":           {request: `{}`},
	"FleetService/Apply":                   {request: `{"documents": [{"cluster": {"metadata": {"name": "%s"}}}], "dryRun": true}`, name: "two", on: "two"},
	"FleetService/Apply create Cluster":    {request: `{"documents": [{"cluster": {"metadata": {"name": "%s"}}}], "mode": "APPLY_MODE_CREATE"}`, name: "one", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/Get Cluster":             {request: `{"kind": "Cluster", "name": "%s"}`, name: "one"},
	"FleetService/List Cluster":            {request: `{"kind": "Cluster"}`},
	"FleetService/Apply update Cluster":    {request: `{"documents": [{"cluster": {"metadata": {"name": "%s"}}}], "mode": "APPLY_MODE_UPDATE"}`, name: "one", as: "none", answer: missing},
	"FleetService/Delete Cluster":          {request: `{"kind": "Cluster", "name": "%s"}`, name: "one", as: "none", answer: missing},
	"FleetService/Apply create Repository": {request: `{"documents": [{"repository": {"metadata": {"name": "%s"}, "spec": {"url": "https://git.example/x.git"}}}], "mode": "APPLY_MODE_CREATE"}`, name: "demo", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/Get Repository":          {request: `{"kind": "Repository", "name": "%s"}`, name: "demo"},
	"FleetService/List Repository":         {request: `{"kind": "Repository"}`},
	"FleetService/Apply update Repository": {request: `{"documents": [{"repository": {"metadata": {"name": "%s"}, "spec": {"url": "https://git.example/x.git"}}}], "mode": "APPLY_MODE_UPDATE"}`, name: "demo", as: "none", answer: missing},
	"FleetService/Delete Repository":       {request: `{"kind": "Repository", "name": "%s"}`, name: "demo", as: "none", answer: missing},
	"FleetService/Apply create Service":    {request: `{"documents": [{"service": {"metadata": {"name": "%s"}, "spec": {"cluster": "one", "sources": [{"repository": "demo"}]}}}], "mode": "APPLY_MODE_CREATE"}`, name: "app", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/Get Service":             {request: `{"kind": "Service", "name": "%s"}`, name: "app"},
	"FleetService/ListRevisions":           {request: `{"service": "%s"}`, name: "app"},
	"FleetService/ListServiceCommits":      {request: `{"service": "%s"}`, name: "app"},
	"FleetService/List Service":            {request: `{"kind": "Service", "cluster": "%s"}`, name: "one"},
	"FleetService/Apply update Service":    {request: `{"documents": [{"service": {"metadata": {"name": "%s"}, "spec": {"cluster": "one", "sources": [{"repository": "demo"}]}}}], "mode": "APPLY_MODE_UPDATE"}`, name: "app", as: "none", answer: missing},
	"FleetService/Delete Service":          {request: `{"kind": "Service", "name": "%s"}`, name: "app", as: "none", answer: missing},
	"FleetService/ListWebhookDeliveries":   {request: `{"name": "%s"}`, name: "demo"},
	"FleetService/SyncRepository":          {request: `{"name": "%s"}`, name: "demo"},
	"FleetService/SyncService":             {request: `{"name": "%s"}`, name: "app", as: "none", answer: missing},
	"FleetService/PreviewService":          {request: `{"name": "%s", "ref": {"branch": "next"}}`, name: "app", as: "none", answer: missing},
	"FleetService/GetServicePlan":          {request: `{"name": "%s"}`, name: "app"},
	"FleetService/DownloadServiceBundle": {
		request: `{"service": "%s", "digest": "sha256:` + strings.Repeat("1", 64) + `"}`, name: "app", answer: "not_found BUNDLE_NOT_FOUND",
	},
	"FleetService/Watch":           {request: `{"kind": "Service", "name": "%s@one"}`, name: "app"},
	"FleetService/CreateJoinToken": {request: `{"cluster": "%s"}`, name: "one", as: "none", answer: missing},
	"FleetService/RevokeCluster":   {request: `{"cluster": "%s"}`, name: "one", as: "none", answer: missing},
	"FleetService/ReleaseCluster":  {request: `{"cluster": "%s"}`, name: "one", as: "none", answer: missing},
	"FleetService/CreateAccessToken": {
		request: `{}`, instead: map[string]string{anAccessToken: denied}, // or it would never end
	},

	"FleetService/Apply create User": {request: `{"documents": [{"user": {"metadata": {"name": "%s"}}}], "mode": "APPLY_MODE_CREATE"}`, name: "eve", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/Get User":          {request: `{"kind": "User", "name": "%s"}`, name: "admin"},
	"FleetService/List User":         {request: `{"kind": "User"}`},
	"FleetService/Apply update User": {request: `{"documents": [{"user": {"metadata": {"name": "%s"}, "spec": {"groups": ["leat:admins"]}}}], "mode": "APPLY_MODE_UPDATE"}`, name: "admin", as: "none", answer: missing},
	"FleetService/Delete User":       {request: `{"kind": "User", "name": "%s"}`, name: "admin", as: "none", answer: missing},
	"FleetService/CreateToken":       {request: `{"user": "%s", "label": "x"}`, name: "admin", as: "none", answer: missing},
	"FleetService/ListTokens":        {request: `{}`},
	"FleetService/DeleteToken":       {request: `{"id": "%s"}`, name: "0123456789abcdef", answer: missing},
	"FleetService/Apply create AccessBinding": {request: `{"documents": [{"accessBinding": {"metadata": {"name": "%s"}, "spec": {"users": ["eve"], "role": "ACCESS_ROLE_VIEWER", "clusters": {"names": ["one"]}}}}], "mode": "APPLY_MODE_CREATE"}`, name: "devs", answer: "already_exists ALREADY_EXISTS", instead: map[string]string{
		"admin, limited to admin of one": denied, // a binding that never ends outlives the token
	}},
	"FleetService/Get AccessBinding":          {request: `{"kind": "AccessBinding", "name": "%s"}`, name: "devs"},
	"FleetService/List AccessBinding":         {request: `{"kind": "AccessBinding"}`},
	"FleetService/Apply update AccessBinding": {request: `{"documents": [{"accessBinding": {"metadata": {"name": "%s"}, "spec": {"users": ["eve"], "role": "ACCESS_ROLE_VIEWER", "clusters": {"names": ["one"]}}}}], "mode": "APPLY_MODE_UPDATE"}`, name: "devs", as: "none", answer: missing},
	"FleetService/Delete AccessBinding":       {request: `{"kind": "AccessBinding", "name": "%s"}`, name: "devs", as: "none", answer: missing},
	"FleetService/Apply create Role":          {request: `{"documents": [{"role": {"metadata": {"name": "%s"}, "spec": {"permissions": [{"verbs": ["sync"], "resources": ["services"]}]}}}], "mode": "APPLY_MODE_CREATE"}`, name: "syncer", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/Get Role":                   {request: `{"kind": "Role", "name": "%s"}`, name: "syncer"},
	"FleetService/List Role":                  {request: `{"kind": "Role"}`},
	"FleetService/Apply update Role":          {request: `{"documents": [{"role": {"metadata": {"name": "%s"}, "spec": {"permissions": [{"verbs": ["*"], "resources": ["*"]}]}}}], "mode": "APPLY_MODE_UPDATE"}`, name: "syncer", as: "none", answer: missing},
	"FleetService/Delete Role":                {request: `{"kind": "Role", "name": "%s"}`, name: "syncer", as: "none", answer: missing},
	"FleetService/ReviewAccess":               {request: `{"cluster": "one"}`},

	"FleetService/Apply create Project": {request: `{"documents": [{"project": {"metadata": {"name": "%s"}}}], "mode": "APPLY_MODE_CREATE"}`, name: "default", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/Get Project":          {request: `{"kind": "Project", "name": "%s"}`, name: "default"},
	"FleetService/List Project":         {request: `{"kind": "Project"}`},
	"FleetService/Apply update Project": {request: `{"documents": [{"project": {"metadata": {"name": "%s"}}}], "mode": "APPLY_MODE_UPDATE"}`, name: "default", as: "none", answer: missing},
	"FleetService/Delete Project":       {request: `{"kind": "Project", "name": "%s"}`, name: "default", as: "none", answer: missing},

	"FleetService/Apply create IdentityProvider": {request: `{"documents": [{"identityProvider": {"metadata": {"name": "%s"}, "spec": {"issuer": "https://login.example", "clientId": "leat"}}}], "mode": "APPLY_MODE_CREATE"}`, name: "corp", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/Get IdentityProvider":          {request: `{"kind": "IdentityProvider", "name": "%s"}`, name: "corp"},
	"FleetService/List IdentityProvider":         {request: `{"kind": "IdentityProvider"}`},
	"FleetService/Apply update IdentityProvider": {request: `{"documents": [{"identityProvider": {"metadata": {"name": "%s"}, "spec": {"issuer": "https://login.example", "clientId": "leat"}}}], "mode": "APPLY_MODE_UPDATE"}`, name: "corp", as: "none", answer: missing},
	"FleetService/Delete IdentityProvider":       {request: `{"kind": "IdentityProvider", "name": "%s"}`, name: "corp", as: "none", answer: missing},

	"FleetService/Apply create TrustRule": {request: `{"documents": [{"trustRule": {"metadata": {"name": "%s"}, "spec": {"issuer": "https://ci.example", "audience": "leat", "require": [{"claim": "repository", "values": ["acme/shop"]}]}}}], "mode": "APPLY_MODE_CREATE"}`, name: "ci", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/Get TrustRule":          {request: `{"kind": "TrustRule", "name": "%s"}`, name: "ci"},
	"FleetService/List TrustRule":         {request: `{"kind": "TrustRule"}`},
	"FleetService/Apply update TrustRule": {request: `{"documents": [{"trustRule": {"metadata": {"name": "%s"}, "spec": {"issuer": "https://ci.example", "audience": "leat", "require": [{"claim": "repository", "values": ["acme/shop"]}]}}}], "mode": "APPLY_MODE_UPDATE"}`, name: "ci", as: "no", answer: missing},
	"FleetService/Delete TrustRule":       {request: `{"kind": "TrustRule", "name": "%s"}`, name: "ci", as: "no", answer: missing},

	"FleetService/Apply create ConfigBackend": {request: `{"documents": [{"configBackend": {"metadata": {"name": "%s"}, "spec": {"environment": {}}}}], "mode": "APPLY_MODE_CREATE"}`, name: "vault", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/Get ConfigBackend":          {request: `{"kind": "ConfigBackend", "name": "%s"}`, name: "vault"},
	"FleetService/List ConfigBackend":         {request: `{"kind": "ConfigBackend"}`},
	"FleetService/Apply update ConfigBackend": {request: `{"documents": [{"configBackend": {"metadata": {"name": "%s"}, "spec": {"environment": {}}}}], "mode": "APPLY_MODE_UPDATE"}`, name: "vault", as: "no", answer: missing},
	"FleetService/RefreshConfigBackend":       {request: `{"name": "%s"}`, name: "vault"},
	"FleetService/Delete ConfigBackend":       {request: `{"kind": "ConfigBackend", "name": "%s"}`, name: "vault", as: "no", answer: missing},
	"FleetService/ExplainServiceConfig":       {request: `{"name": "%s"}`, name: "app"},
	"QueryService/QueryFleet":                 {request: `{"query": {"kind": "Service"}}`},
	"QueryService/WatchQuery":                 {request: `{"query": {"kind": "Service"}}`},
	"QueryService/GetFleetStatus":             {request: `{}`},

	"FleetService/Apply create ConfigSet":           {request: `{"documents": [{"configSet": {"metadata": {"name": "%s"}}}], "mode": "APPLY_MODE_CREATE"}`, name: "base", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/Get ConfigSet":                    {request: `{"kind": "ConfigSet", "name": "%s"}`, name: "base"},
	"FleetService/List ConfigSet":                   {request: `{"kind": "ConfigSet"}`},
	"FleetService/Apply update ConfigSet":           {request: `{"documents": [{"configSet": {"metadata": {"name": "%s"}}}], "mode": "APPLY_MODE_UPDATE"}`, name: "base", as: "none", answer: missing},
	"FleetService/Delete ConfigSet":                 {request: `{"kind": "ConfigSet", "name": "%s"}`, name: "base", as: "none", answer: missing},
	"FleetService/Apply create Notifier":            {request: `{"documents": [{"notifier": {"metadata": {"name": "%s"}, "spec": {"slack": {"url": "https://chat.example/hook"}}}}], "mode": "APPLY_MODE_CREATE"}`, name: "chat", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/Get Notifier":                     {request: `{"kind": "Notifier", "name": "%s"}`, name: "chat"},
	"FleetService/List Notifier":                    {request: `{"kind": "Notifier"}`},
	"FleetService/Apply update Notifier":            {request: `{"documents": [{"notifier": {"metadata": {"name": "%s"}, "spec": {"slack": {"url": "https://chat.example/hook"}}}}], "mode": "APPLY_MODE_UPDATE"}`, name: "chat", as: "none", answer: missing},
	"FleetService/Delete Notifier":                  {request: `{"kind": "Notifier", "name": "%s"}`, name: "chat", as: "none", answer: missing},
	"NotifierService/TestNotifier":                  {request: `{"name": "%s"}`, name: "chat", as: "none", answer: missing},
	"NotifierService/ListDeadLetters":               {request: `{"name": "%s"}`, name: "chat"},
	"NotifierService/ResendNotifier":                {request: `{"name": "%s"}`, name: "chat", as: "none", answer: missing},
	"FleetService/Apply create GlobalService":       {request: `{"documents": [{"globalService": {"metadata": {"name": "%s"}, "spec": {"clusters": {"names": ["none"]}, "template": {"sources": [{"repository": "demo"}]}}}}], "mode": "APPLY_MODE_CREATE"}`, name: "everywhere", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/Get GlobalService":                {request: `{"kind": "GlobalService", "name": "%s"}`, name: "everywhere"},
	"FleetService/List GlobalService":               {request: `{"kind": "GlobalService"}`},
	"FleetService/Apply update GlobalService":       {request: `{"documents": [{"globalService": {"metadata": {"name": "%s"}, "spec": {"clusters": {"names": ["none"]}, "template": {"sources": [{"repository": "demo"}]}}}}], "mode": "APPLY_MODE_UPDATE"}`, name: "everywhere", as: "none", answer: missing},
	"FleetService/Delete GlobalService":             {request: `{"kind": "GlobalService", "name": "%s"}`, name: "everywhere", as: "none", answer: missing},
	"GlobalServiceService/ListGlobalServiceMembers": {request: `{"name": "%s"}`, name: "everywhere"},

	"FleetService/Apply create RolloutPolicy":     {request: `{"documents": [{"rolloutPolicy": {"metadata": {"name": "%s"}, "spec": {}}}], "mode": "APPLY_MODE_CREATE"}`, name: "waves", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/Get RolloutPolicy":              {request: `{"kind": "RolloutPolicy", "name": "%s"}`, name: "waves"},
	"FleetService/List RolloutPolicy":             {request: `{"kind": "RolloutPolicy"}`},
	"FleetService/Apply update RolloutPolicy":     {request: `{"documents": [{"rolloutPolicy": {"metadata": {"name": "%s"}, "spec": {}}}], "mode": "APPLY_MODE_UPDATE"}`, name: "waves", as: "none", answer: missing},
	"FleetService/Delete RolloutPolicy":           {request: `{"kind": "RolloutPolicy", "name": "%s"}`, name: "waves", as: "none", answer: missing},
	"RolloutService/ListRollouts":                 {request: `{"name": "%s"}`, name: "waves"},
	"RolloutService/GetRollout":                   {request: `{"name": "%s"}`, name: "waves", as: "none", answer: missing},
	"RolloutService/ControlRollout":               {request: `{"name": "%s", "verb": "abort"}`, name: "waves", as: "none", answer: missing},
	"RolloutService/ApproveRollout":               {request: `{"name": "%s"}`, name: "waves", as: "none", answer: missing},
	"RolloutService/ReplayRollout":                {request: `{"name": "%s"}`, name: "waves", as: "none", answer: missing},
	"RolloutService/RollbackService":              {request: `{"name": "%s"}`, name: "app", as: "none", answer: missing},
	"RolloutService/ReleaseService":               {request: `{"name": "%s"}`, name: "app", as: "none", answer: missing},
	"FleetService/Apply create FleetSource":       {request: `{"documents": [{"fleet_source": {"metadata": {"name": "%s"}, "spec": {"source": {"repository": "fleet"}, "hub": true}}}], "mode": "APPLY_MODE_CREATE"}`, name: "source", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/Get FleetSource":                {request: `{"kind": "FleetSource", "name": "%s"}`, name: "source"},
	"FleetService/List FleetSource":               {request: `{"kind": "FleetSource"}`},
	"FleetService/Apply update FleetSource":       {request: `{"documents": [{"fleet_source": {"metadata": {"name": "%s"}, "spec": {"source": {"repository": "fleet"}, "hub": true}}}], "mode": "APPLY_MODE_UPDATE"}`, name: "source", as: "none", answer: missing},
	"FleetService/Delete FleetSource":             {request: `{"kind": "FleetSource", "name": "%s"}`, name: "source", as: "none", answer: missing},
	"FleetSourceService/SyncFleetSource":          {request: `{"name": "%s"}`, name: "source", as: "none", answer: missing},
	"FleetSourceService/ConfirmFleetSource":       {request: `{"name": "%s", "digest": "x"}`, name: "source", as: "none", answer: missing},
	"FleetSourceService/ListFleetSourceDocuments": {request: `{"name": "%s"}`, name: "source"},

	"FleetService/Apply create ImagePolicy": {request: `{"documents": [{"image_policy": {"metadata": {"name": "%s"}, "spec": {"repository": "images"}}}], "mode": "APPLY_MODE_CREATE"}`, name: "web", answer: "already_exists ALREADY_EXISTS"},
	"FleetService/Get ImagePolicy":          {request: `{"kind": "ImagePolicy", "name": "%s"}`, name: "web"},
	"FleetService/List ImagePolicy":         {request: `{"kind": "ImagePolicy"}`},
	"FleetService/Apply update ImagePolicy": {request: `{"documents": [{"image_policy": {"metadata": {"name": "%s"}, "spec": {"repository": "images"}}}], "mode": "APPLY_MODE_UPDATE"}`, name: "web", as: "none", answer: missing},
	"FleetService/Delete ImagePolicy":       {request: `{"kind": "ImagePolicy", "name": "%s"}`, name: "web", as: "none", answer: missing},
	"ImagePolicyService/SyncImagePolicy":    {request: `{"name": "%s"}`, name: "web", as: "none", answer: missing},

	// Names of requests are made by the hub, so the table names one that does not exist.
	"FleetService/Get AccessRequest":             {request: `{"kind": "AccessRequest", "name": "%s"}`, name: "access-none", answer: missing},
	"FleetService/List AccessRequest":            {request: `{"kind": "AccessRequest"}`},
	"AccessRequestService/CreateAccessRequest":   {request: `{}`, answer: "invalid_argument FIELD_INVALID", isUnlimited: true},
	"AccessRequestService/ApproveAccessRequest":  {request: `{"name": "%s"}`, name: "access-none", answer: missing, isHidden: true},
	"AccessRequestService/DenyAccessRequest":     {request: `{"name": "%s"}`, name: "access-none", answer: missing, isHidden: true},
	"AccessRequestService/WithdrawAccessRequest": {request: `{"name": "%s"}`, name: "access-none", answer: missing},

	"BootstrapService/CreateBootstrapToken": {request: `{"namePrefix": "", "project": "default"}`, answer: "invalid_argument FIELD_INVALID"},
	"BootstrapService/ListBootstrapTokens":  {request: `{}`},
	"BootstrapService/RevokeBootstrapToken": {request: `{"id": "%s"}`, name: "0123456789abcdef", answer: missing},

	"SessionService/GetSignInMethods":  {request: `{}`},
	"SessionService/StartDeviceSignIn": {request: `{}`},
	"SessionService/CreateSession": {
		answer: invalid, request: `{"code": "guessed", "codeVerifier": "x", "tokenHash": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}`,
	},
	"SessionService/CreateSignInCode": {
		request: `{}`, instead: map[string]string{anAccessToken: denied}, // or it would outlive itself
	},
	"SessionService/SignIn": {request: `{"code": "guessed"}`, answer: invalid},
	"SessionService/CreateAccessToken": {
		answer: invalid, request: `{"sessionToken": "guessed.leatses_guessed", "nextTokenHash": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}`,
	},
	"SessionService/SignOut":        {request: `{"sessionToken": "guessed.leatses_guessed"}`},
	"SessionService/ListSessions":   {request: `{}`},
	"SessionService/RevokeSession":  {request: `{"id": "guessed"}`, answer: missing},
	"KeyService/GetKeys":            {request: `{}`},
	"KeyService/RotateSealingKey":   {request: `{"expectedId": "0000000000000000"}`, answer: "aborted VERSION_CONFLICT"},
	"KeyService/RotateSigningKey":   {request: `{"expectedId": "0000000000000000"}`, answer: "aborted VERSION_CONFLICT"},
	"FleetService/ListAuditRecords": {request: `{}`},
	"FleetService/ListAccessHolders": {
		request: `{"cluster": "%s", "attributes": {"verb": "delete", "resource": "pods"}}`, name: "one",
	},
}

// person holds the rights of a caller who is a person.
type person struct {
	role catalog.RoleName
	// scope is the cluster that the role is for, or "hub", "own project" or "foreign project".
	scope string
	// limit is the limit of the person's token. Nil: it has no limit.
	limit *person
}

// holds reports whether the person has a permission for an object of a cluster; cluster is "" for an
// object of the hub. The repository demo belongs to the bindings for one.
func (p person) holds(verb, resource, cluster string) bool {
	if p.limit != nil && !p.limit.holds(verb, resource, cluster) {
		return false
	}
	role, isBuiltin := catalog.BuiltinRole(p.role)
	if !isBuiltin {
		role = syncer()
	}
	return role.Holds(catalog.Permission{Verb: verb, Resource: resource}) && p.isAbout(verb, resource, cluster)
}

// isAbout reports whether an object is in the scope of the person's binding. A role in a project lets
// people read what the project is.
func (p person) isAbout(verb, resource, cluster string) bool {
	if p.limit != nil && !p.limit.isAbout(verb, resource, cluster) {
		return false
	}
	switch p.scope {
	case "hub":
		return true
	case ownProject: // a binding that names a cluster is not in a project
		return resource == catalog.ResourceNotifiers || resource == catalog.ResourceBootstraps || resource == catalog.ResourceConfigSets || resource == catalog.ResourceGlobalServices ||
			resource == catalog.ResourceRollouts || resource == catalog.ResourceImagePolicies || cluster != "" && resource != catalog.ResourceAccessBindings && resource != catalog.ResourceAccessRequests || resource == catalog.ResourceProjects && verb == catalog.VerbGet
	}
	return cluster != "" && p.scope == cluster
}

// syncer is a role of permissions.
func syncer() catalog.RoleSpec {
	return catalog.RoleSpec{Permissions: []catalog.Permissible{{Verbs: []string{"sync"}, Resources: []string{"services"}}}}
}

// Scopes of persons that are projects: the one that all objects of the table belong to, and another one.
const ownProject, foreignProject = "own project", "foreign project"

// clusterOf returns the cluster whose bindings decide about the object of a row; "" for the hub's.
func (r right) clusterOf(resource string) string {
	switch kind, _, _ := strings.Cut(resource, "/"); kind {
	case "users", "tokens", "roles", "projects", "identityproviders", "trustrules", "configbackends", "loginsessions", "keys", "auditrecords", "sessions", "recordings", "notifiers", "configsets", "globalservices", "rolloutpolicies", "fleetsources", "imagepolicies", "bootstraptokens":
		return ""
	}
	return cmp.Or(r.on, "one")
}

// sees reports whether the person may see the object of a row.
func (p person) sees(r right, access permission.Access) bool {
	resource, _, _ := strings.Cut(access.Resource, "/")
	switch resource {
	case "jointokens", permission.Each:
		resource = "clusters"
	case "revisions":
		resource = "services"
	}
	cluster := r.clusterOf(resource)
	return p.role != catalog.RoleNone && resource == "clusters" && p.isAbout(catalog.VerbGet, resource, cluster) || p.holds("get", resource, cluster)
}

// mayCall reports whether the person has what the option asks for, about the object of the row.
func (p person) mayCall(r right, access permission.Access) bool {
	switch {
	case access.Verb == "", access.IsOwn && r.name == "":
		return true // about themselves
	case access.Verb == "list" && r.name == "" && access.Resource != "auditrecords", access.Verb == "list" && access.Resource != "auditrecords" && strings.Contains(r.request, "cluster"), access.Verb == "watch":
		return true // holds what they may see
	case access.Verb == "get" && access.Resource == catalog.ResourceClusters:
		return p.sees(r, access) // by any role there
	case access.Resource == permission.Each:
		return p.holds("update", "clusters", r.clusterOf("clusters"))
	}
	return p.holds(access.Verb, access.Resource, r.clusterOf(access.Resource))
}

// letIn reports whether a caller gets past the door, to where objects are looked up.
func (r right) letIn(c caller, access permission.Access) bool {
	if access.Admits(optionsv1.Caller_CALLER_ANYONE) {
		return true
	}
	switch c.kind {
	case people:
		return access.Admits(optionsv1.Caller_CALLER_PERSON) && c.person.mayCall(r, access)
	case agents:
		return access.Admits(optionsv1.Caller_CALLER_AGENT)
	case services:
		return access.Admits(optionsv1.Caller_CALLER_SERVICE)
	}
	return false
}

// entitled returns the answer for a caller.
func (r right) entitled(c caller, access permission.Access) string {
	if answer := r.insteadFor(c); answer != "" {
		return answer
	}
	isFor := access.Admits(optionsv1.Caller_CALLER_PERSON)
	switch {
	case r.letIn(c, access):
		return cmp.Or(r.answer, granted)
	case c.kind == stranger, c.kind == ended && access.Admits(optionsv1.Caller_CALLER_AGENT):
		return invalid
	case c.kind != people || !isFor:
		return denied
	case access.Verb == "create" && access.Resource == "services" && !c.person.sees(r, permission.Access{Resource: "clusters"}):
		return absent
	case r.isHidden:
		return missing
	case access.Verb == "create" && access.Resource != "jointokens", access.Resource == permission.Each,
		access.Resource == "tokens", access.Resource == "keys", access.Resource == "auditrecords":
		return denied
	case c.person.sees(r, access):
		return denied
	}
	return missing
}

func (r right) with(name string) string {
	if r.name == "" {
		return r.request
	}
	return fmt.Sprintf(r.request, name)
}

// TestAccessToCalls makes every call as every kind of caller: each is let in or refused by the
// table, a refused caller learns nothing about existing objects, and nothing changes by it. A call
// that the table does not know fails the test.
//
// The whole matrix has fifteen thousand cells, one after the other, so the race detector finds nothing
// more in it. `make siege` walks it without the detector. `make test` walks a part: each call by one
// caller of each kind, and by every eighth of all callers in turn.
func TestAccessToCalls(t *testing.T) {
	t.Parallel()
	const part = 8
	isWhole := os.Getenv("LEAT_MATRIX") != ""
	s := newStage(t)
	s.callers = append(s.callers, s.narrow(t)...)
	before := s.catalog(t)
	walked := 0
	for _, tried := range triedCalls(t) {
		if walked++; walked%20 == 0 {
			s.renew(t) // on busy cores, the walk takes longer than tokens last
		}
		name, method, r, access := tried.name, tried.method, tried.right, tried.access
		for number, c := range s.callers {
			if !isWhole && !c.isFirst() && (walked+number)%part != 0 {
				continue
			}
			c.token = c.current(t)
			forms := formsOf(method)
			if c.isAgain {
				forms = forms[:1]
			}
			for _, form := range forms {
				t.Run(name+" by "+c.name+" as "+form, func(t *testing.T) { s.check(t, method, r, c, access, form) })
			}
		}
	}
	if walked != len(rights) {
		t.Errorf("the table has %d calls, %d of them exist", len(rights), walked)
	}
	if diff := gocmp.Diff(before, s.catalog(t)); diff != "" {
		t.Errorf("refused calls changed the catalog (-before +after):\n%s", diff)
	}
}

// check makes one call as one caller.
func (s *stage) check(t *testing.T, method protoreflect.MethodDescriptor, r right, c caller, access permission.Access, form string) {
	name := r.name
	if r.letIn(c, access) && r.as != "" {
		name = r.as
	}
	got := s.call(t, method, c.token, r.with(name), form)
	if want := r.entitled(c, access); got.verdict() != want {
		t.Errorf("got %s (%s), want %s", got.verdict(), got.message, want)
	}
	if refused := !r.letIn(c, access) || r.insteadFor(c) != ""; !refused || r.name == "" || r.name == c.user || c.isAgain {
		return
	}
	if c.kind == people && c.person.sees(r, access) {
		return // may know that the object is there
	}
	// Names of the same length, so that lengths can be compared, too.
	other := strings.Repeat("z", len(r.name))
	known, unknown := s.call(t, method, c.token, r.with(r.name), form), s.call(t, method, c.token, r.with(other), form)
	if diff := gocmp.Diff(known.echoing(r.name), unknown.echoing(other)); diff != "" {
		t.Errorf("a refusal tells whether %s exists (-exists +does not):\n%s", r.name, diff)
	}
}

// triedCall is a row of the table, with its call and who may make it.
type triedCall struct {
	name   string
	method protoreflect.MethodDescriptor
	kind   catalog.Kind // empty for a call that is about one kind by its name
	right  right
	access permission.Access
}

// triedCalls are the rows of the table, in the order of the calls. A call without a row, and a kind without a row of a
// call about any kind, fail the test.
func triedCalls(t *testing.T) []triedCall {
	t.Helper()
	var all []triedCall
	for _, method := range methods() {
		access, ok := permission.Of(method)
		if !ok {
			t.Errorf("%s does not say who may call it", method.FullName())
		}
		for _, row := range rowsOf(method) {
			r, ok := rights[row.name]
			if !ok {
				t.Errorf("%s is not in the table of who may call what", row.name)
				continue
			}
			all = append(all, triedCall{name: row.name, method: method, kind: row.kind, right: r, access: row.of(access)})
		}
	}
	return all
}

// callRow is a row of the table by its name: what a call does to objects of a kind.
type callRow struct {
	name, verb string
	kind       catalog.Kind
}

// rowsOf returns the rows of a call. One that names a kind has a row for each kind, and Apply two, besides that for all of
// them; Watch has that alone.
func rowsOf(method protoreflect.MethodDescriptor) []callRow {
	name := fmt.Sprintf("%s/%s", method.Parent().Name(), method.Name())
	one := callRow{name: name}
	access, _ := permission.Of(method)
	isApply, namesKind := method.Name() == "Apply", method.Input().Fields().ByName("kind") != nil && access.Resource == permission.Each
	if !isApply && !namesKind || method.IsStreamingServer() {
		return []callRow{one}
	}
	var rows []callRow
	if isApply {
		rows = append(rows, one)
	}
	for _, kind := range catalog.Kinds() {
		if kind.IsByCalls() && (isApply || method.Name() == "Delete") {
			continue // refused to everybody
		}
		if !isApply {
			rows = append(rows, callRow{name: name + " " + string(kind), kind: kind})
			continue
		}
		for _, verb := range []string{catalog.VerbCreate, catalog.VerbUpdate} {
			rows = append(rows, callRow{name: name + " " + verb + " " + string(kind), verb: verb, kind: kind})
		}
	}
	return rows
}

// of returns who may make the row's call, where it is for any kind.
func (r callRow) of(access permission.Access) permission.Access {
	if r.kind == "" {
		return access
	}
	access.Resource = catalog.ResourceOf(r.kind)
	access.Verb = cmp.Or(r.verb, access.Verb)
	access.IsOwn = access.IsOwn && (r.kind == catalog.KindUser || r.kind == catalog.KindAccessBinding || r.kind == catalog.KindAccessRequest)
	return access
}

// methods are all calls of the services, from the protocol files.
func methods() []protoreflect.MethodDescriptor {
	var all []protoreflect.MethodDescriptor
	for _, file := range []protoreflect.FileDescriptor{
		distributorv1.File_leat_distributor_v1_distributor_proto, fleetv1.File_leat_fleet_v1_fleet_proto,
		fleetv1.File_leat_fleet_v1_session_proto, fleetv1.File_leat_fleet_v1_keys_proto, fleetv1.File_leat_fleet_v1_notifier_proto,
		fleetv1.File_leat_fleet_v1_query_proto,
		fleetv1.File_leat_fleet_v1_global_service_proto,
		fleetv1.File_leat_fleet_v1_rollout_proto,
		fleetv1.File_leat_fleet_v1_fleet_source_proto, fleetv1.File_leat_fleet_v1_image_policy_proto, fleetv1.File_leat_fleet_v1_bootstrap_proto, fleetv1.File_leat_fleet_v1_access_request_proto,
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
	clusters, err1 := fleetcalls.List[*fleetv1.Cluster](t.Context(), admin, &fleetv1.ListRequest{})
	repositories, err2 := fleetcalls.List[*fleetv1.Repository](t.Context(), admin, &fleetv1.ListRequest{})
	found, err3 := fleetcalls.List[*fleetv1.Service](t.Context(), admin, &fleetv1.ListRequest{})
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	var all []string
	keep := func(metadata, spec proto.Message) { all = append(all, fmt.Sprint(metadata, spec)) }
	for _, cluster := range clusters.Objects {
		keep(cluster.GetMetadata(), cluster.GetSpec())
	}
	for _, repository := range repositories.Objects {
		keep(repository.GetMetadata(), repository.GetSpec())
	}
	for _, service := range found.Objects {
		keep(service.GetMetadata(), service.GetSpec())
	}
	return all
}

// TestAccessToPaths does the same for paths that are not RPCs.
func TestAccessToPaths(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	held, absent := "/v1/bundles/"+s.content.snapshot.GetDigest(), "/v1/bundles/"+digest.FromBytes([]byte("nobody has this")).String()
	for _, c := range s.callers {
		c.token = c.current(t)
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
			if diff := gocmp.Diff(fmt.Sprint(got), fmt.Sprint(s.request(t, method, absent, c.token))); diff != "" {
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
