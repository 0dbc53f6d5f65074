// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
)

// folderOf makes a real bundle of files; a content that begins with "-> " is a symbolic link.
func folderOf(t *testing.T, commit string, files map[string]string) *folder {
	t.Helper()
	content, err := packed(commit, files)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// packed is folderOf for callers without a test.
func packed(commit string, files map[string]string) (*folder, error) {
	var plain, packed bytes.Buffer
	w := bundle.NewWriter(&plain, bundle.DefaultLimits())
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name]
		var err error
		if target, isLink := strings.CutPrefix(content, "-> "); isLink {
			err = w.WriteSymlink(name, target)
		} else {
			err = w.WriteFile(name, false, int64(len(content)), strings.NewReader(content))
		}
		if err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	z, err := bundle.Compress(&packed)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(plain.Bytes()); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return &folder{bytes: packed.Bytes(), snapshot: &typev1.Snapshot{
		Commit: commit, Digest: digest.FromBytes(plain.Bytes()).String(), ContentSize: int64(plain.Len()), StoredSize: int64(packed.Len()),
		FileCount: int32(len(files)),
	}}, nil
}

// commit puts files into the folder "fleet" of a repository, and announces that.
func (h *hub) commit(t *testing.T, repository, commit string, files map[string]string) {
	t.Helper()
	h.git.set(repository, "fleet", folderOf(t, commit, files))
	h.git.announce(repository, "", "refs/heads/main")
}

func (h *hub) fleetSources(t *testing.T, token string) fleetv1connect.FleetSourceServiceClient {
	t.Helper()
	c := h.client(t, token)
	return fleetv1connect.NewFleetSourceServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

// fleetSourceDocument reads the folder "fleet" of a repository with the role of an administrator.
func fleetSourceDocument(project, name, repository string, change ...func(*fleetv1.FleetSourceSpec)) *fleetv1.Document {
	spec := &fleetv1.FleetSourceSpec{
		Source: &typev1.Source{Repository: repository, Path: "fleet"}, Role: typev1.AccessRole_ACCESS_ROLE_ADMIN,
	}
	for _, c := range change {
		c(spec)
	}
	return fleetdoc.Of(&fleetv1.FleetSource{Metadata: &typev1.Metadata{Project: project, Name: name}, Spec: spec})
}

func wholeHub(s *fleetv1.FleetSourceSpec) { s.Hub = true }

// waitSource waits until the status of a fleet source is as it should be.
func (h *hub) waitSource(t *testing.T, name, what string, holds func(*fleetv1.FleetSourceStatus) bool) *fleetv1.FleetSourceStatus {
	t.Helper()
	var status *fleetv1.FleetSourceStatus
	client := h.fleetSources(t, adminToken)
	defer func() {
		if t.Failed() {
			t.Logf("status of %s: %v", name, status)
			res, _ := client.ListFleetSourceDocuments(t.Context(), &fleetv1.ListFleetSourceDocumentsRequest{Name: name})
			t.Logf("documents of %s: %v", name, res.GetDocuments())
		}
	}()
	await.True(t, what, func() bool {
		res, err := fleetcalls.Get[*fleetv1.FleetSource](t.Context(), h.fleet(t, adminToken), name)
		if err != nil {
			t.Fatal(err)
		}
		status = res.GetStatus()
		return holds(status)
	})
	return status
}

// at waits until a commit was read, with the reason of a problem; REASON_UNSPECIFIED: none.
func (h *hub) at(t *testing.T, name, commit string, reason errorsv1.Reason) *fleetv1.FleetSourceStatus {
	t.Helper()
	return h.waitSource(t, name, fmt.Sprintf("a look of %s at commit %s with %s", name, commit, reason), func(s *fleetv1.FleetSourceStatus) bool {
		return s.GetCommit() == commit && s.GetProblem().GetReason() == reason
	})
}

// documentsOf returns the documents of a source's latest look by "kind/name", or by position.
func (h *hub) documentsOf(t *testing.T, source string) map[string]*fleetv1.FleetSourceDocument {
	t.Helper()
	all := map[string]*fleetv1.FleetSourceDocument{}
	page := &typev1.Page{Size: 2}
	for {
		res, err := h.fleetSources(t, adminToken).ListFleetSourceDocuments(t.Context(), &fleetv1.ListFleetSourceDocumentsRequest{Name: source, Page: page})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range res.GetDocuments() {
			key := d.GetPosition()
			if d.GetKind() != "" {
				key = strings.ToLower(d.GetKind()) + "/" + d.GetName()
			}
			all[key] = d
		}
		if page.Token = res.GetNextPageToken(); page.Token == "" {
			return all
		}
	}
}

func (h *hub) hasCluster(t *testing.T, name string) bool {
	t.Helper()
	_, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), h.fleet(t, adminToken), name)
	if err != nil && connect.CodeOf(err) != connect.CodeNotFound {
		t.Fatal(err)
	}
	return err == nil
}

func yamlCluster(name, description string) string {
	return fmt.Sprintf("apiVersion: leat.dev/v1\nkind: Cluster\nmetadata: {name: %s}\nspec: {description: %q}\n---\n", name, description)
}

const fleetRepository = `apiVersion: leat.dev/v1
kind: Repository
metadata: {name: fleet}
spec: {url: "https://git.example/fleet.git"}
---
`

const fleetItself = `apiVersion: leat.dev/v1
kind: FleetSource
metadata: {name: fleet}
spec:
  source: {repository: fleet, path: fleet}
  role: admin
  hub: true
---
`

const fleetService = `apiVersion: leat.dev/v1
kind: Service
metadata: {name: shop}
spec:
  cluster: berlin
  sources: [{repository: fleet, path: shop}]
`

// TestFleetSourceKeepsTheFleet has a folder that holds its own repository and source bootstrap a fleet on
// an empty hub, follow commits, be put right, and not be emptied.
func TestFleetSourceKeepsTheFleet(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.commit(t, "fleet", "c1", map[string]string{
		"hub/source.yaml": fleetItself + fleetRepository, "berlin.yaml": fleetService, "clusters.yml": yamlCluster("berlin", "first") + yamlCluster("paris", "first"),
		"README.md": "no document",
	})
	h.apply(t, parsedDocuments(t, fleetRepository+fleetItself)...)
	status := h.at(t, "fleet", "c1", errorsv1.Reason_REASON_UNSPECIFIED)
	if status.GetDocuments() != 5 || status.GetManaged() != 5 || status.GetSucceededAt() == nil {
		t.Errorf("got %v, want five documents, all managed", status)
	}
	service := h.waitService(t, "shop", func(*fleetv1.Service) bool { return true })
	if m := service.GetMetadata(); m.GetManager().GetKind() != "FleetSource" || m.GetManager().GetName() != "fleet" || m.GetManager().GetUid() == "" || m.GetCreatedBy() != "fleetsource:fleet" || m.GetReason() != "commit c1" {
		t.Errorf("got %v, want the fleet source and the commit", m)
	}

	// Another commit changes one object, and removes another one within the guard.
	h.commit(t, "fleet", "c2", map[string]string{
		"hub/source.yaml": fleetItself + fleetRepository, "berlin.yaml": fleetService, "clusters.yml": yamlCluster("berlin", "second"),
	})
	h.at(t, "fleet", "c2", errorsv1.Reason_REASON_UNSPECIFIED)
	if h.hasCluster(t, "paris") {
		t.Error("the cluster whose document is gone is still there")
	}
	if d := h.documentsOf(t, "fleet"); d["cluster/paris"].GetAction() != fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_REMOVED ||
		d["cluster/berlin"].GetAction() != fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_CONFIGURED || d["cluster/berlin"].GetPosition() != "clusters.yml:1:1" {
		t.Errorf("got %v", d)
	}

	// A person's edit is refused, and the edit of a suspended source's object is put right later.
	edited := clusterDocument("berlin")
	_, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{edited}})
	if rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_FLEET_SOURCE_MANAGED || !strings.Contains(err.Error(), "fleetsource/fleet") {
		t.Errorf("an edit by hand: got %v, want a refusal that names the source", err)
	}
	if err := fleetcalls.Delete[*fleetv1.Service](t.Context(), h.fleet(t, adminToken), "shop@berlin"); rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_FLEET_SOURCE_MANAGED {
		t.Errorf("a removal by hand: got %v, want a refusal", err)
	}
	h.apply(t, suspended(t, true))
	h.apply(t, edited)
	h.apply(t, suspended(t, false))
	await.True(t, "the edit to be put right", func() bool {
		res, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), h.fleet(t, adminToken), "berlin")
		return err == nil && res.GetSpec().GetDescription() == "second"
	})

	// An empty folder removes nothing, and confirmed objects are removed, except the ones that the
	// source needs.
	h.commit(t, "fleet", "c3", map[string]string{"README.md": "nothing"})
	status = h.at(t, "fleet", "c3", errorsv1.Reason_REASON_FLEET_SOURCE_HELD)
	h.wantProblem(t, "FleetSource", fleetv1.ProblemSeverity_PROBLEM_SEVERITY_DEGRADED, "")
	if status.GetHeld() != 2 || !h.hasCluster(t, "berlin") {
		t.Errorf("got %v, want both removals held", status)
	}
	client := h.fleetSources(t, adminToken)
	_, err = client.ConfirmFleetSource(t.Context(), &fleetv1.ConfirmFleetSourceRequest{Name: "fleet", Digest: "0123456789abcdef"})
	wantReason(t, err, "FIELD_INVALID")
	if _, err := client.ConfirmFleetSource(t.Context(), &fleetv1.ConfirmFleetSourceRequest{Name: "fleet", Digest: status.GetHeldDigest()}); err != nil {
		t.Fatal(err)
	}
	h.at(t, "fleet", "c3", errorsv1.Reason_REASON_UNSPECIFIED)
	if d := h.documentsOf(t, "fleet"); h.hasCluster(t, "berlin") || d["fleetsource/fleet"].GetAction() != fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_KEPT ||
		d["repository/fleet"].GetAction() != fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_KEPT {
		t.Errorf("got %v, want all removed but the source and its repository", d)
	}
	err = fleetcalls.Delete[*fleetv1.Repository](t.Context(), h.fleet(t, adminToken), "fleet")
	if err == nil {
		t.Error("the repository that a fleet source reads was deleted")
	}
}

// suspended is the document of the source that manages itself, suspended or not.
func suspended(t *testing.T, isSuspended bool) *fleetv1.Document {
	t.Helper()
	d := parsedDocuments(t, fleetItself)[0]
	d.GetFleetSource().Spec.Suspended = isSuspended
	return d
}

func parsedDocuments(t *testing.T, text string) []*fleetv1.Document {
	t.Helper()
	parsed, err := document.Parse("test.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	documents := make([]*fleetv1.Document, len(parsed))
	for i, d := range parsed {
		documents[i] = d.Object
	}
	return documents
}

// TestFleetSourcesClaimOneDocument has two sources describe the same object, and one describe an object
// that was there before.
func TestFleetSourcesClaimOneDocument(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, clusterDocument("old"), repositoryDocument("first"), repositoryDocument("second"))
	h.commit(t, "first", "a1", map[string]string{"a.yaml": yamlCluster("berlin", "of the first")})
	h.commit(t, "second", "b1", map[string]string{"b.yaml": yamlCluster("berlin", "of the second") + yamlCluster("old", "differs") + yamlCluster("own", "")})
	h.apply(t, fleetSourceDocument("", "first", "first"))
	h.at(t, "first", "a1", errorsv1.Reason_REASON_UNSPECIFIED)
	h.apply(t, fleetSourceDocument("", "second", "second"))
	status := h.at(t, "second", "b1", errorsv1.Reason_REASON_FLEET_SOURCE_CONFLICT)
	d := h.documentsOf(t, "second")
	if message := d["cluster/berlin"].GetMessage(); status.GetFailed() != 2 || !strings.Contains(message, "fleetsource/first") || !strings.Contains(message, "fleetsource/second") {
		t.Errorf("got %v and %v, want a conflict that names both sources", status, d)
	}
	if d["cluster/own"].GetAction() != fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_CREATED || d["cluster/old"].GetAction() != fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_CONFLICT {
		t.Errorf("got %v", d)
	}
	res, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), h.fleet(t, adminToken), "berlin")
	if err != nil || res.GetSpec().GetDescription() != "of the first" {
		t.Errorf("got %v, %v", res, err)
	}
	// With adopt, what was there before is taken over, and what another source manages is not.
	h.apply(t, fleetSourceDocument("", "second", "second", func(s *fleetv1.FleetSourceSpec) { s.Adopt = true }))
	await.True(t, "the adoption", func() bool {
		return h.documentsOf(t, "second")["cluster/old"].GetAction() != fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_CONFLICT
	})
	if h.documentsOf(t, "second")["cluster/berlin"].GetAction() != fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_CONFLICT {
		t.Error("an object of another source was adopted")
	}
	// When the first source is gone, the second one has it.
	if err := fleetcalls.Delete[*fleetv1.FleetSource](t.Context(), h.fleet(t, adminToken), "first"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.fleetSources(t, adminToken).SyncFleetSource(t.Context(), &fleetv1.SyncFleetSourceRequest{Name: "second"}); err != nil {
		t.Fatal(err)
	}
	h.at(t, "second", "b1", errorsv1.Reason_REASON_UNSPECIFIED)
}

// TestFleetSourceWithBadDocuments has some documents be wrong: the others are applied, nothing is
// removed, and an outage changes nothing.
func TestFleetSourceWithBadDocuments(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, repositoryDocument("fleet"), fleetSourceDocument("", "fleet", "fleet", func(s *fleetv1.FleetSourceSpec) { s.Kinds = []string{"Cluster", "Service"} }))
	h.commit(t, "fleet", "c1", map[string]string{"a.yaml": yamlCluster("a", "") + yamlCluster("b", "") + yamlCluster("c", "")})
	h.at(t, "fleet", "c1", errorsv1.Reason_REASON_UNSPECIFIED)
	h.commit(t, "fleet", "c2", map[string]string{
		"a.yaml": yamlCluster("a", "changed"), "broken.yaml": "apiVersion: leat.dev/v1\nkind: Cluster\nmetadata: {nam: b}\n", "kind.yaml": fleetRepository,
		"missing.yaml": strings.ReplaceAll(fleetService, "berlin", "nowhere"), "twice.yaml": yamlCluster("a", "again"), "yaml.yaml": "a: [",
	})
	status := h.at(t, "fleet", "c2", errorsv1.Reason_REASON_FLEET_SOURCE_DOCUMENTS)
	h.wantProblem(t, "FleetSource", fleetv1.ProblemSeverity_PROBLEM_SEVERITY_FAILED, "")
	d := h.documentsOf(t, "fleet")
	if status.GetFailed() < 5 || status.GetHeld() != 2 || !h.hasCluster(t, "b") || !h.hasCluster(t, "c") {
		t.Errorf("got %v, want failures, and no removal", status)
	}
	for key, want := range map[string]string{
		"broken.yaml:3:12": "unknown field", "repository/fleet": "spec.kinds", "service/shop@nowhere": "cluster \"nowhere\" does not exist", "yaml.yaml:1": "not YAML",
	} {
		if !strings.Contains(d[key].GetMessage(), want) {
			t.Errorf("%s: got %v, want a message with %q, in\n%v", key, d[key], want, d)
		}
	}
	if position := d["service/shop@nowhere"].GetPosition(); position != "missing.yaml:5:12" {
		t.Errorf("got %q, want the position of the field", position)
	}
	res, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), h.fleet(t, adminToken), "a")
	if err != nil || res.GetSpec().GetDescription() != "changed" {
		t.Errorf("got %v, %v, want the good document applied", res, err)
	}
	// An upstream that fails is a problem that changes nothing.
	h.git.refuse("fleet", rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE, "no way"))
	h.git.announce("fleet", "", "refs/heads/main")
	h.at(t, "fleet", "c2", errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE)
	if !h.hasCluster(t, "a") || !h.hasCluster(t, "b") {
		t.Error("an outage removed clusters")
	}
	h.git.refuse("fleet", nil)
	h.commit(t, "fleet", "c3", map[string]string{"a.yaml": yamlCluster("a", "") + yamlCluster("b", "")})
	h.at(t, "fleet", "c3", errorsv1.Reason_REASON_UNSPECIFIED)
	if h.hasCluster(t, "c") {
		t.Error("the removal within the guard was not made")
	}
}

// TestFleetSourceDryRun only shows what it would do.
func TestFleetSourceDryRun(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, repositoryDocument("fleet"), fleetSourceDocument("", "fleet", "fleet", func(s *fleetv1.FleetSourceSpec) { s.DryRun = true }))
	h.commit(t, "fleet", "c1", map[string]string{"a.yaml": yamlCluster("a", "") + strings.ReplaceAll(fleetService, "berlin", "a")})
	status := h.at(t, "fleet", "c1", errorsv1.Reason_REASON_UNSPECIFIED)
	if status.GetPending() != 2 || status.GetManaged() != 0 || status.GetSucceededAt() != nil || h.hasCluster(t, "a") {
		t.Errorf("got %v, want two creations shown and none made", status)
	}
}

// TestFleetSourceKeepsSecrets has secrets given by hand stay through commits, which do not hold them.
func TestFleetSourceKeepsSecrets(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	withSecret := strings.TrimSuffix(fleetService, "\n") + "\n  config:\n    secrets: {PASSWORD: \"\"}\n"
	h.apply(t, repositoryDocument("fleet"), fleetSourceDocument("", "fleet", "fleet"))
	h.commit(t, "fleet", "c1", map[string]string{"a.yaml": yamlCluster("berlin", ""), "b.yaml": withSecret})
	h.at(t, "fleet", "c1", errorsv1.Reason_REASON_FLEET_SOURCE_DOCUMENTS)
	given := parsedDocuments(t, withSecret)[0]
	given.GetService().GetSpec().GetConfig().Secrets["PASSWORD"] = "first"
	h.apply(t, given)
	if _, err := h.fleetSources(t, adminToken).SyncFleetSource(t.Context(), &fleetv1.SyncFleetSourceRequest{Name: "fleet"}); err != nil {
		t.Fatal(err)
	}
	h.at(t, "fleet", "c1", errorsv1.Reason_REASON_UNSPECIFIED)
	given.GetService().GetSpec().GetConfig().Secrets["PASSWORD"] = "second"
	if res := h.apply(t, given); res.GetOutcomes()[0].GetAction() != fleetv1.ApplyAction_APPLY_ACTION_CONFIGURED {
		t.Errorf("another secret of a managed service: got %v, want it stored", res)
	}
	h.commit(t, "fleet", "c2", map[string]string{"a.yaml": yamlCluster("berlin", "changed"), "b.yaml": withSecret})
	h.at(t, "fleet", "c2", errorsv1.Reason_REASON_UNSPECIFIED)
	res, err := fleetcalls.Get[*fleetv1.Service](t.Context(), h.fleet(t, adminToken), "shop@berlin")
	if _, has := res.GetSpec().GetConfig().GetSecrets()["PASSWORD"]; err != nil || !has {
		t.Errorf("got %v, %v, want the secret kept", res, err)
	}
}

// TestFleetIsRestoredFromGit starts a hub with an empty database, and applies two documents.
func TestFleetIsRestoredFromGit(t *testing.T) {
	t.Parallel()
	git := startFakeGit(t)
	files := map[string]string{"fleet.yaml": fleetItself + fleetRepository + yamlCluster("berlin", "kept in Git") + fleetService}
	var last []*fleetv1.Document
	for range 2 {
		h := startReplica(t, git)
		h.commit(t, "fleet", "c1", files)
		h.apply(t, parsedDocuments(t, fleetRepository+fleetItself)...)
		h.at(t, "fleet", "c1", errorsv1.Reason_REASON_UNSPECIFIED)
		var now []*fleetv1.Document
		now = append(now, parsedDocuments(t, files["fleet.yaml"])...)
		res := h.apply(t, now...)
		for i, outcome := range res.GetOutcomes() {
			if outcome.GetAction() != fleetv1.ApplyAction_APPLY_ACTION_UNCHANGED {
				t.Errorf("%v: got %v, want everything to be as Git says", now[i], outcome.GetAction())
			}
		}
		h.enrol(t, "berlin") // the agents enrol again, or their hub's database is restored
		last = now
		h.stop(t)
	}
	if len(last) != 4 {
		t.Errorf("got %d documents", len(last))
	}
}

// TestExampleOfFleetFromGit applies the documents of the example, and has its folder followed.
func TestExampleOfFleetFromGit(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	read := func(name string) string {
		content, err := os.ReadFile("../../examples/fleet-from-git/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	h.commit(t, "fleet", "c1", map[string]string{"bootstrap.yaml": read("fleet/bootstrap.yaml"), "clusters.yaml": read("fleet/clusters.yaml"), "shop.yaml": read("fleet/shop.yaml")})
	h.apply(t, parsedDocuments(t, read("fleet/bootstrap.yaml"))...)
	if status := h.at(t, "fleet", "c1", errorsv1.Reason_REASON_UNSPECIFIED); status.GetManaged() != status.GetDocuments() {
		t.Errorf("got %v, want all documents managed", status)
	}
}

// TestSecFleetSourceRights has committers of the folder of a project try to obtain what the source does not
// hold: rights, other projects, the hub, and another role for the source itself.
func TestSecFleetSourceRights(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	repository := repositoryDocument("fleet")
	repository.GetRepository().Metadata.Project = "shop"
	h.apply(t, parsedDocuments(t, "apiVersion: leat.dev/v1\nkind: Project\nmetadata: {name: shop}\n")...)
	stage := map[string]string{"stage": "prod"}
	h.apply(t, repository, clusterDocument("platform"), in("shop", labelledCluster("labelled", stage)), in("shop", labelledCluster("moved", stage)))
	withLabel := func(name, label string) string {
		return strings.Replace(yamlCluster(name, "changed"), "}", ", labels: {stage: "+label+"}}", 1)
	}
	h.commit(t, "shop.fleet", "c1", map[string]string{
		"i.yaml": withLabel("labelled", "prod"), "j.yaml": withLabel("moved", "dev"), "k.yaml": withLabel("fresh", "dev"),
		"a.yaml": yamlCluster("own", ""),
		"b.yaml": strings.ReplaceAll(yamlCluster("taken", ""), "name: taken", "name: taken, project: default"),
		"c.yaml": "apiVersion: leat.dev/v1\nkind: AccessBinding\nmetadata: {name: eve}\nspec: {users: [eve], hub: true, role: admin}\n",
		"d.yaml": "apiVersion: leat.dev/v1\nkind: User\nmetadata: {name: eve}\nspec: {groups: [\"leat:admins\"]}\n",
		"e.yaml": "apiVersion: leat.dev/v1\nkind: Service\nmetadata: {name: spy}\nspec: {cluster: default/platform, sources: [{repository: fleet}]}\n",
		"f.yaml": "apiVersion: leat.dev/v1\nkind: FleetSource\nmetadata: {name: more}\nspec: {source: {repository: fleet}, role: admin, hub: true}\n",
		"g.yaml": "apiVersion: leat.dev/v1\nkind: ConfigBackend\nmetadata: {name: env}\nspec: {environment: {}}\n",
		"h.yaml": "apiVersion: leat.dev/v1\nkind: AccessBinding\nmetadata: {name: mallory}\nspec: {users: [mallory], projects: {names: [shop]}, role: editor}\n",
	})
	h.apply(t, fleetSourceDocument("shop", "fleet", "fleet", func(s *fleetv1.FleetSourceSpec) { s.Adopt = true }))
	h.at(t, "shop/fleet", "c1", errorsv1.Reason_REASON_FLEET_SOURCE_DOCUMENTS)
	d := h.documentsOf(t, "shop/fleet")
	for key, want := range map[string]fleetv1.FleetSourceAction{
		"cluster/shop/own": fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_CREATED, "cluster/taken": fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_FAILED,
		"accessbinding/eve": fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_FAILED, "user/eve": fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_FAILED,
		"service/shop/spy@default/platform": fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_FAILED,
		"fleetsource/shop/more":             fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_FAILED, "configbackend/env": fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_FAILED,
		"accessbinding/mallory": fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_CREATED,
		// An administrator of a project is not one of its clusters: labels stay, and are not set.
		"cluster/shop/labelled": fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_CONFIGURED,
		"cluster/shop/moved":    fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_FAILED, "cluster/shop/fresh": fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_FAILED,
	} {
		isFailed := want == fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_FAILED // another look may find what the first one wrote
		if got := d[key].GetAction(); got != want && (isFailed || got != fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_UNCHANGED) {
			t.Errorf("%s: got %v, want %s, in %v", key, d[key], want, d)
		}
	}
	res, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), h.fleet(t, adminToken), "shop/own")
	if err != nil || res.GetMetadata().GetManager().GetName() != "shop/fleet" {
		t.Errorf("got %v, %v", res, err)
	}
}

// TestSecFleetSourceInheritsNothing has an editor make a fleet source of the name that an
// administrator's source had: objects that it managed are not the editor's, so people may change
// it, and the new source has nothing of it to remove. The derived services of a managed global
// service are not objects of the source.
func TestSecFleetSourceInheritsNothing(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	const global = "apiVersion: leat.dev/v1\nkind: GlobalService\nmetadata: {name: base}\nspec: {clusters: {all: true}, template: {sources: [{repository: fleet, path: base}]}}\n"
	h.apply(t, repositoryDocument("fleet"), fleetSourceDocument("", "fleet", "fleet"))
	h.commit(t, "fleet", "c1", map[string]string{"clusters.yaml": yamlCluster("berlin", "") + yamlCluster("paris", ""), "global.yaml": global})
	if status := h.at(t, "fleet", "c1", errorsv1.Reason_REASON_UNSPECIFIED); status.GetManaged() != 3 {
		t.Errorf("got %v, want three managed objects beside the services of both clusters", status)
	}
	h.waitService(t, "base@berlin", func(s *fleetv1.Service) bool { return s.GetMetadata().GetManager() == nil })
	edited := clusterDocument("berlin")
	edited.GetCluster().Spec.Description = "by hand"
	edit := func() error {
		_, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{edited}})
		return err
	}
	wantReason(t, edit(), "FLEET_SOURCE_MANAGED")
	if err := fleetcalls.Delete[*fleetv1.FleetSource](t.Context(), h.fleet(t, adminToken), "fleet"); err != nil {
		t.Fatal(err)
	}
	h.commit(t, "fleet", "c2", map[string]string{"README.md": "nothing"})
	h.apply(t, parsedDocuments(t, "{apiVersion: leat.dev/v1, kind: User, metadata: {name: ed}}\n---\n"+
		"{apiVersion: leat.dev/v1, kind: AccessBinding, metadata: {name: ed}, spec: {users: [ed], projects: {names: [default]}, role: editor}}\n")...)
	made, err := h.fleet(t, adminToken).CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: "ed", Label: "test"})
	if err != nil {
		t.Fatal(err)
	}
	again := fleetSourceDocument("", "fleet", "fleet", func(s *fleetv1.FleetSourceSpec) { s.Role = typev1.AccessRole_ACCESS_ROLE_EDITOR })
	if _, err := h.fleet(t, made.GetSecret()).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{again}}); err != nil {
		t.Fatal(err)
	}
	if status := h.at(t, "fleet", "c2", errorsv1.Reason_REASON_UNSPECIFIED); status.GetManaged() != 0 || status.GetHeld() != 0 {
		t.Errorf("got %v, want a source without objects", status)
	}
	if err := edit(); err != nil {
		t.Errorf("an edit of what the former source managed: %v", err)
	}
}

// TestSecFleetSourceDirection has an editor of a project, who is no administrator, try to direct a source
// that acts as one: by its spec, by its repository, and by making another one.
func TestSecFleetSourceDirection(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, parsedDocuments(t, `{apiVersion: leat.dev/v1, kind: Project, metadata: {name: shop}}
---
{apiVersion: leat.dev/v1, kind: Repository, metadata: {name: fleet, project: shop}, spec: {url: "https://git.example/fleet.git"}}
---
{apiVersion: leat.dev/v1, kind: User, metadata: {name: ed}}
---
{apiVersion: leat.dev/v1, kind: AccessBinding, metadata: {name: ed}, spec: {users: [ed], projects: {names: [shop]}, role: editor}}
`)...)
	h.apply(t, fleetSourceDocument("shop", "fleet", "fleet"))
	made, err := h.fleet(t, adminToken).CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: "ed", Label: "test"})
	if err != nil {
		t.Fatal(err)
	}
	editor := func(d *fleetv1.FleetSourceSpec) { d.Role = typev1.AccessRole_ACCESS_ROLE_EDITOR }
	elsewhere := func(d *fleetv1.FleetSourceSpec) { d.Projects = []string{"default"} }
	repository := repositoryDocument("fleet")
	repository.GetRepository().Metadata.Project = "shop"
	repository.GetRepository().Spec.Url = "https://git.evil/fleet.git"
	for name, document := range map[string]*fleetv1.Document{
		"the spec":     fleetSourceDocument("shop", "fleet", "fleet", func(s *fleetv1.FleetSourceSpec) { s.Source.Path = "other" }),
		"a lower role": fleetSourceDocument("shop", "fleet", "fleet", editor), "the repository": repository,
		"a new one": fleetSourceDocument("shop", "new", "fleet"), "another project": fleetSourceDocument("shop", "new", "fleet", editor, elsewhere),
		"the hub": fleetSourceDocument("shop", "new", "fleet", editor, wholeHub),
	} {
		_, err := h.fleet(t, made.GetSecret()).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}})
		if connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
	if _, err := h.fleet(t, made.GetSecret()).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{fleetSourceDocument("shop", "own", "fleet", editor)}}); err != nil {
		t.Errorf("a source with the editor's own role: got %v", err)
	}
	foreign := fleetSourceDocument("shop", "foreign", "default/fleet")
	if _, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{foreign}}); rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_FIELD_INVALID {
		t.Errorf("a repository of another project: got %v, want a refusal", err)
	}
}

// TestSecFleetSourceContent has a committer send bombs, giants, links and too many documents: the
// hub shows the problem, and keeps its objects.
func TestSecFleetSourceContent(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, repositoryDocument("fleet"), fleetSourceDocument("", "fleet", "fleet"))
	good := yamlCluster("a", "")
	h.commit(t, "fleet", "c0", map[string]string{"a.yaml": good})
	h.at(t, "fleet", "c0", errorsv1.Reason_REASON_UNSPECIFIED)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 8 {
		bomb += fmt.Sprintf("%c: &%c [", 'b'+i, 'b'+i) + strings.Repeat(fmt.Sprintf("*%c,", 'a'+i), 10) + "]\n"
	}
	h.commit(t, "fleet", "c1", map[string]string{
		"a.yaml": good, "bomb.yaml": "apiVersion: leat.dev/v1\nkind: Cluster\nmetadata: {name: bomb}\nspec: {description: [*i]}\n" + bomb,
		"cycle.yaml": "apiVersion: leat.dev/v1\nkind: List\nitems: &a [*a]\n", "deep.yaml": strings.Repeat("[", 100_000),
		"giant.yaml": strings.Repeat("# giant\n", 1<<17+1), "link.yaml": "-> a.yaml", "dots.yaml": yamlCluster("../../etc", ""),
	})
	h.at(t, "fleet", "c1", errorsv1.Reason_REASON_FLEET_SOURCE_DOCUMENTS)
	d := h.documentsOf(t, "fleet")
	if d["link.yaml"].GetMessage() == "" || d["giant.yaml"].GetMessage() == "" || d["cluster/a"].GetAction() != fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_UNCHANGED {
		t.Errorf("got %v", d)
	}
	many := &strings.Builder{}
	for i := range 10_001 {
		fmt.Fprintf(many, "{apiVersion: leat.dev/v1, kind: Role, metadata: {name: r%d}}\n---\n", i)
	}
	h.commit(t, "fleet", "c2", map[string]string{"many.yaml": many.String()})
	h.waitSource(t, "fleet", "too many documents to be refused", func(s *fleetv1.FleetSourceStatus) bool {
		return strings.Contains(s.GetProblem().GetMessage(), "more than 10000 documents")
	})
	if !h.hasCluster(t, "a") {
		t.Error("the hub lost what it had")
	}
}

// TestSecFleetSourceOfRefusedDocuments commits hundreds of documents that the catalog refuses. The hub
// finds a hundred of them, in few transactions, and applies the good ones that come before.
func TestSecFleetSourceOfRefusedDocuments(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, repositoryDocument("fleet"), fleetSourceDocument("", "fleet", "fleet"))
	files := map[string]string{}
	for i := range 20 {
		files[fmt.Sprintf("cluster%d.yaml", i)] = yamlCluster(fmt.Sprintf("c%d", i), "")
	}
	const bad = 300
	for i := range bad {
		files[fmt.Sprintf("service%d.yaml", i)] = strings.NewReplacer("name: shop", fmt.Sprintf("name: shop%d", i), "berlin", "nowhere").Replace(fleetService)
	}
	h.commit(t, "fleet", "c1", files)
	status := h.at(t, "fleet", "c1", errorsv1.Reason_REASON_FLEET_SOURCE_DOCUMENTS)
	found, waiting := 0, 0
	for _, d := range h.documentsOf(t, "fleet") {
		switch {
		case strings.Contains(d.GetMessage(), "does not exist"):
			found++
		case strings.Contains(d.GetMessage(), "other documents of the commit are refused"):
			waiting++
		}
	}
	if status.GetFailed() != bad || found < 100 || found+waiting != bad || waiting < bad/2 {
		t.Errorf("got %v with %d refused and %d waiting documents, want %d failures, of which about 100 were tried", status, found, waiting, bad)
	}
	if !h.hasCluster(t, "c0") || !h.hasCluster(t, "c19") {
		t.Error("good documents were not applied")
	}
}
