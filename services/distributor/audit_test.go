// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/auditout"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/services/distributor"
)

// stating returns a context in which calls state a reason, as it is sent.
func stating(t *testing.T, reason ...string) context.Context {
	t.Helper()
	c, info := connect.NewClientContext(t.Context())
	for _, r := range reason {
		info.RequestHeader().Add("Leat-Reason", r)
	}
	return c
}

// auditOf returns the records that a request selects.
func auditOf(t *testing.T, client fleetv1connect.FleetServiceClient, req *fleetv1.ListAuditRecordsRequest) []*fleetv1.AuditRecord {
	t.Helper()
	var all []*fleetv1.AuditRecord
	for {
		res, err := client.ListAuditRecords(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, res.GetRecords()...)
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			return all
		}
	}
}

// TestRecordsOfCalls makes every kind of call that changes something, and finds its record with who
// made it, why, and what changed, in the database and in the file.
func TestRecordsOfCalls(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.log")
	h := startHub(t, func(cfg *distributor.Config) {
		cfg.Audit.Config = auditout.Config{Outputs: []string{"file"}, File: file, FailClosed: true}
	})
	c := &crowd{hub: h, admin: h.fleet(t, adminToken)}
	secret, id := c.join(t, "ada", "leat:admins")
	ada := h.fleet(t, secret)
	const password = "canary-of-this-test"
	repository := repositoryDocument("demo")
	repository.GetRepository().Spec.Credential = &gitcachev1.Credential{
		Method: &gitcachev1.Credential_Basic{Basic: &gitcachev1.BasicCredential{Username: "u", Password: password}},
	}
	why := "OPS-7: 50% more, für alle"
	for range 2 { // the second one changes nothing
		if _, err := ada.Apply(stating(t, url.PathEscape(why)), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{
			clusterDocument("one"), repository, serviceDocument("app", "one", "demo", "deploy"),
		}}); err != nil {
			t.Fatal(err)
		}
		repository.GetRepository().Spec.Credential = nil
	}
	service := serviceDocument("app", "one", "demo", "deploy").GetService()
	service.Metadata.Labels = map[string]string{"tier": "gold"}
	if _, err := fleetcalls.Update(t.Context(), ada, service); err != nil {
		t.Fatal(err)
	}
	if _, err := ada.SyncService(t.Context(), &fleetv1.SyncServiceRequest{Name: "app"}); err != nil {
		t.Fatal(err)
	}
	if _, err := ada.CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: "one"}); err != nil {
		t.Fatal(err)
	}
	for range 3 { // recorded once
		if _, err := ada.CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	h.enrol(t, "one")
	if _, err := ada.RevokeCluster(t.Context(), &fleetv1.RevokeClusterRequest{Cluster: "one"}); err != nil {
		t.Fatal(err)
	}
	if err := fleetcalls.Delete[*fleetv1.Service](t.Context(), ada, "app"); err != nil {
		t.Fatal(err)
	}
	if err := fleetcalls.Delete[*fleetv1.Service](t.Context(), ada, "app"); err == nil {
		t.Fatal("deleted twice")
	}

	records := auditOf(t, c.admin, &fleetv1.ListAuditRecordsRequest{Token: "api." + id, PageSize: 3})
	var got []string
	for _, r := range records {
		got = append(got, strings.Join([]string{r.GetVerb(), r.GetKind(), r.GetName(), r.GetCluster(), r.GetOutcome()}, " "))
	}
	want := []string{
		"delete Service app  NOT_FOUND", "delete Service app one OK", "revoke Cluster one one OK", "create AccessToken distributor  OK",
		"create JoinToken one one OK", "sync Service app one OK", "update Service app one OK",
		"create Service app one OK", "create Repository demo  OK", "create Cluster one one OK",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got records\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	made := records[len(want)-1]
	if made.GetReason() != why || made.GetSubject() != "user:ada" || made.GetSubjectUid() == "" || made.GetCredential() != "api."+id ||
		!strings.HasPrefix(made.GetSourceAddress(), "127.0.0.1:") || made.GetProcedure() != fleetv1connect.FleetServiceApplyProcedure ||
		made.GetRequestId() == "" || made.GetObjectUid() == "" || made.GetUserAgent() == "" {
		t.Errorf("got %v", made)
	}
	if a, b := records[len(want)-2].GetRequestId(), made.GetRequestId(); a != b {
		t.Errorf("got requests %s and %s of one Apply", a, b)
	}
	if n := len(auditOf(t, c.admin, &fleetv1.ListAuditRecordsRequest{RequestId: made.GetRequestId()})); n != 3 {
		t.Errorf("got %d records of the Apply, want 3", n)
	}
	if updated := records[6].GetChanges(); len(updated) != 1 || updated[0].GetPath() != "metadata.labels.tier" || updated[0].Old != nil ||
		updated[0].GetNew() != `"gold"` {
		t.Errorf("got changes %v of the update", updated)
	}
	credential := slices.ContainsFunc(records[8].GetChanges(), func(f *fleetv1.AuditFieldChange) bool {
		return f.GetPath() == "spec.credential" && f.GetSecretEffect() == fleetv1.AuditSecretEffect_AUDIT_SECRET_EFFECT_SET && f.New == nil
	})
	if !credential {
		t.Errorf("got %v, want a credential that was set", records[8].GetChanges())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if strings.Contains(r.String(), password) {
			t.Errorf("the password is in %v", r)
		}
		if n := strings.Count(string(text), `"id":"`+r.GetId()+`"`); n != 1 {
			t.Errorf("%s %s is in the file %d times", r.GetVerb(), r.GetKind(), n)
		}
	}
	if strings.Contains(string(text), password) || strings.Contains(string(text), secret) {
		t.Error("a secret is in the file")
	}
	for line := range strings.Lines(string(text)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("got line %q", line)
		}
	}
	enrolled := auditOf(t, c.admin, &fleetv1.ListAuditRecordsRequest{Verb: "enrol"})
	if len(enrolled) != 1 || enrolled[0].GetCluster() != "one" || enrolled[0].GetSubject() != "service:distributor" ||
		!strings.HasPrefix(enrolled[0].GetSourceAddress(), "127.0.0.1:") || !strings.HasSuffix(enrolled[0].GetProcedure(), "/Enroll") {
		t.Errorf("got %v, want that of the agent", enrolled)
	}
	cluster, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), ada, "one")
	if m := cluster.GetMetadata(); err != nil || m.GetCreatedBy() != "user:ada" || m.GetUpdatedBy() != "user:ada" || m.GetReason() != why {
		t.Errorf("got %v, %v", m, err)
	}
	bootstrap := auditOf(t, c.admin, &fleetv1.ListAuditRecordsRequest{Subject: "service:distributor", Verb: "create"})
	if len(bootstrap) != 2 || bootstrap[1].GetKind() != "User" || bootstrap[0].GetKind() != "Token" {
		t.Errorf("got %v, want the administrator that the hub made, and their token", bootstrap)
	}
}

// TestSecRecordsOfRefusedCalls has a person without rights try things: each try is on record, at most
// 60 in a minute, and neither records nor authors are for them to see.
func TestSecRecordsOfRefusedCalls(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	eves := bindingDocument("eves", "eve", "one")
	eves.GetAccessBinding().Spec.Role = typev1.AccessRole_ACCESS_ROLE_VIEWER
	if _, err := c.admin.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{clusterDocument("one"), eves}}); err != nil {
		t.Fatal(err)
	}
	secret, _ := c.join(t, "eve")
	eve := c.fleet(t, secret)
	if _, err := eve.ListAuditRecords(t.Context(), &fleetv1.ListAuditRecordsRequest{}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("records of others: got %v, want %v", err, connect.CodePermissionDenied)
	}
	for range 100 {
		if err := fleetcalls.Delete[*fleetv1.Cluster](t.Context(), eve, "one"); connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Fatalf("got %v, want %v", err, connect.CodePermissionDenied)
		}
	}
	records := auditOf(t, c.admin, &fleetv1.ListAuditRecordsRequest{Subject: "user:eve", Outcome: "refused"})
	if len(records) != 60 {
		t.Errorf("got %d records, want 60", len(records))
	}
	for _, r := range records {
		if r.GetOutcome() != "ACCESS_DENIED" || r.GetVerb() != "delete" || r.GetKind() != "Cluster" || r.GetName() != "one" || len(r.GetChanges()) != 0 {
			t.Fatalf("got %v", r)
		}
	}
	c.stop(t) // summaries are written at the end
	c.start(t)
	admin := c.fleet(t, adminToken)
	records = auditOf(t, admin, &fleetv1.ListAuditRecordsRequest{Subject: "user:eve", Outcome: "refused"})
	if len(records) != 61 || records[0].GetCount() != 40 || records[0].GetSince() == nil {
		t.Errorf("got %d records, the last %v, want a summary of 40", len(records), records[0])
	}
	seen, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), c.fleet(t, secret), "one")
	if m := seen.GetMetadata(); err != nil || m.GetCreatedBy() != "" || m.GetUpdatedBy() != "" {
		t.Errorf("got %v, %v, want a cluster without its authors", m, err)
	}
	bindings, err := fleetcalls.List[*fleetv1.AccessBinding](t.Context(), c.fleet(t, secret), &fleetv1.ListRequest{})
	if err != nil || len(bindings.Objects) != 1 || bindings.Objects[0].GetMetadata().GetCreatedBy() != "" {
		t.Errorf("got %v, %v, want a binding without its authors", bindings, err)
	}
}

// TestSecHostileReasons sends reasons that are too long, not printable, or several: nothing changes.
// Long names and user agents are cut in records.
func TestSecHostileReasons(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	for name, reason := range map[string][]string{
		"long":          {strings.Repeat("x", 501)},
		"very long":     {strings.Repeat("x", 8<<10)},
		"long, encoded": {strings.Repeat("%c3%a9", 251)},
		"control":       {"a%0Ab"},
		"terminal":      {"%1B[31mred"},
		"direction":     {"%E2%80%AEevil"},
		"not UTF-8":     {"%ff"},
		"not encoded":   {"50% more"},
		"several":       {"a", "b"},
	} {
		_, err := c.admin.Apply(stating(t, reason...), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{clusterDocument("one")}})
		if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "Leat-Reason") {
			t.Errorf("%s: got %v, want %v that names the header", name, err, connect.CodeInvalidArgument)
		}
	}
	if _, err := c.admin.Apply(stating(t, strings.Repeat("x", 1<<20)), &fleetv1.ApplyRequest{}); err == nil {
		t.Error("a reason of 1 MiB was accepted")
	}
	if _, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), c.admin, "one"); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("got %v, want no such cluster", err)
	}
	name := strings.Repeat("n", 1<<20)
	if err := fleetcalls.Delete[*fleetv1.Cluster](t.Context(), c.admin, name); err == nil {
		t.Error("a name of 1 MiB was accepted")
	}
	ctx, info := connect.NewClientContext(t.Context())
	info.RequestHeader().Set("User-Agent", strings.Repeat("<", 20<<10))
	if err := fleetcalls.Delete[*fleetv1.Cluster](ctx, c.admin, "none"); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("got %v, want %v", err, connect.CodeNotFound)
	}
	records := auditOf(t, c.admin, &fleetv1.ListAuditRecordsRequest{Outcome: "REFUSED"})
	if len(records) != 11 {
		t.Errorf("got %d records, want 11", len(records))
	}
	for _, r := range records {
		if r.GetReason() != "" || len(r.String()) > 8<<10 {
			t.Errorf("got a record of %d bytes with the reason %q", len(r.String()), r.GetReason())
		}
	}
	_, err := c.admin.ListAuditRecords(t.Context(), &fleetv1.ListAuditRecordsRequest{Name: name})
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("got %v, want %v for a filter of 1 MiB", err, connect.CodeInvalidArgument)
	}
}

// TestAuditRequestsAreChecked asks for records in ways that mean nothing.
func TestAuditRequestsAreChecked(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	for field, req := range map[string]*fleetv1.ListAuditRecordsRequest{
		"page_size":  {PageSize: -1},
		"page_token": {PageToken: "x"},
		"after":      {After: 1, PageToken: "1"},
		"outcome":    {Outcome: "fine"},
	} {
		_, err := c.admin.ListAuditRecords(t.Context(), req)
		if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v, want %v that names it", field, err, connect.CodeInvalidArgument)
		}
	}
	res, err := c.admin.ListAuditRecords(t.Context(), &fleetv1.ListAuditRecordsRequest{PageSize: 1})
	if err != nil || len(res.GetRecords()) != 1 || res.GetAfter() != res.GetRecords()[0].GetSequence() {
		t.Fatalf("got %v, %v", res, err)
	}
	next, err := c.admin.ListAuditRecords(t.Context(), &fleetv1.ListAuditRecordsRequest{After: res.GetAfter()})
	if err != nil || len(next.GetRecords()) != 0 || next.GetAfter() != res.GetAfter() {
		t.Errorf("got %v, %v, want nothing new", next, err)
	}
	if _, err := fleetcalls.Create(t.Context(), c.admin, &fleetv1.User{Metadata: &typev1.Metadata{Name: "bob"}}); err != nil {
		t.Fatal(err)
	}
	next, err = c.admin.ListAuditRecords(t.Context(), &fleetv1.ListAuditRecordsRequest{After: res.GetAfter()})
	if err != nil || len(next.GetRecords()) != 1 || next.GetRecords()[0].GetName() != "bob" || next.GetAfter() <= res.GetAfter() {
		t.Errorf("got %v, %v, want the new user", next, err)
	}
}

// TestAuditFailsClosed writes the audit log to a disk that is full.
func TestAuditFailsClosed(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no full device: " + err.Error())
	}
	h := startHub(t)
	h.stop(t)
	h.cfg.Audit.Config = auditout.Config{Outputs: []string{"stdout"}, FailClosed: true, Writer: fullDevice(t)}
	h.start(t)
	admin := h.fleet(t, adminToken)
	_, err := admin.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{clusterDocument("one")}})
	if connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "audit log") {
		t.Errorf("got %v, want %v because of the audit log", err, connect.CodeUnavailable)
	}
	list, err := fleetcalls.List[*fleetv1.Cluster](t.Context(), admin, &fleetv1.ListRequest{})
	if err != nil || len(list.Objects) != 0 {
		t.Errorf("got %v, %v, want nothing stored, and reads that go on", list, err)
	}
	h.stop(t)
	h.cfg.Audit.FailClosed = false
	h.start(t)
	if _, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{clusterDocument("one")}}); err != nil {
		t.Errorf("failing open: %v", err)
	}
}

func fullDevice(t *testing.T) *os.File {
	t.Helper()
	device, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = device.Close() })
	return device
}
