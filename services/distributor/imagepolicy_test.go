// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
)

// fakeImages is what a fakeGit has for image policies. Its lock is the fakeGit's.
type fakeImages struct {
	// tags are the digests of tags, by repository.
	tags map[string]map[string]string
	// files are the files of the folder "apps" of a repository, by repository and path.
	files  map[string]map[string]string
	pushes []*gitcachev1.PushCommitRequest
	// refusal is the answer to pushes; nil: they are made.
	refusal *connect.Error
	// before is called before a push without the lock, and may change the files.
	before func()
	// listed counts the calls for tags.
	listed int
}

// ListRefs lists the tags of an image.
func (f *fakeGit) ListRefs(_ context.Context, req *gitcachev1.ListRefsRequest) (*gitcachev1.ListRefsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.images.listed++
	if f.definitions[req.GetRepository()] == nil {
		return nil, rpcerr.NotFound("repository", req.GetRepository())
	}
	if err := f.refused[req.GetRepository()]; err != nil {
		return nil, err
	}
	res := &gitcachev1.ListRefsResponse{}
	tags := f.images.tags[req.GetRepository()]
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		ref := &gitcachev1.Ref{Name: "refs/tags/" + tag}
		if !strings.HasPrefix(ref.GetName(), req.GetPrefix()) {
			continue
		}
		if slices.Contains(req.GetResolve(), ref.GetName()) {
			ref.Commit = tags[tag]
		}
		res.Refs = append(res.Refs, ref)
	}
	return res, nil
}

// PushCommit writes the files, unless the branch has moved.
func (f *fakeGit) PushCommit(_ context.Context, req *gitcachev1.PushCommitRequest) (*gitcachev1.PushCommitResponse, error) {
	f.mu.Lock()
	before := f.images.before
	f.images.before = nil
	f.mu.Unlock()
	if before != nil {
		before()
	}
	f.mu.Lock()
	if f.images.refusal != nil {
		f.mu.Unlock()
		return nil, f.images.refusal
	}
	head := f.folders[[2]string{req.GetRepository(), "apps"}].snapshot.GetCommit()
	if req.GetBaseCommit() != head {
		f.mu.Unlock()
		return nil, rpcerr.New(connect.CodeAborted, errorsv1.Reason_REASON_PUSH_OUTDATED, "the branch leads to "+head)
	}
	f.images.pushes = append(f.images.pushes, proto.CloneOf(req))
	id := fmt.Sprintf("%040d", len(f.images.pushes))
	files := maps.Clone(f.images.files[req.GetRepository()])
	f.mu.Unlock()
	if req.GetPullRequest() != nil {
		return &gitcachev1.PushCommitResponse{Commit: id, PullRequestUrl: "https://git.example/pulls/" + id}, nil
	}
	for _, file := range req.GetFiles() {
		files[strings.TrimPrefix(file.GetPath(), "apps/")] = string(file.GetContent())
	}
	f.putFiles(req.GetRepository(), id, files)
	return &gitcachev1.PushCommitResponse{Commit: id}, nil
}

// putFiles makes files the folder "apps" of the branch main, and announces that.
func (f *fakeGit) putFiles(repository, commit string, files map[string]string) {
	content, err := packed(commit, files)
	if err != nil {
		panic(err)
	}
	f.set(repository, "apps", content)
	f.mu.Lock()
	if f.images.files == nil {
		f.images.files = map[string]map[string]string{}
	}
	f.images.files[repository] = files
	f.mu.Unlock()
	f.announce(repository, "", "refs/heads/main")
}

// tag makes tags of an image, each of which leads to a digest of its own, and announces that.
func (f *fakeGit) tag(repository string, tags ...string) {
	f.mu.Lock()
	if f.images.tags == nil {
		f.images.tags = map[string]map[string]string{}
	}
	f.images.tags[repository] = map[string]string{}
	for _, tag := range tags {
		f.images.tags[repository][tag] = digestOfTag(tag)
	}
	f.mu.Unlock()
	f.announce(repository, "", "refs/tags/"+tags[0])
}

// digestOfTag returns the digits of a digest.
func digestOfTag(tag string) string { return fmt.Sprintf("%064x", []byte(tag)) }

// fileOf returns a file of the folder "apps".
func (f *fakeGit) fileOf(repository, name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.images.files[repository][name]
}

// pushesOf returns the pushes that were made.
func (f *fakeGit) pushesOf() []*gitcachev1.PushCommitRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.images.pushes)
}

// refusePushes has pushes be refused; nil ends that.
func (f *fakeGit) refusePushes(err *connect.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.images.refusal = err
}

// imageRepository describes a repository of images.
func imageRepository(name string) *fleetv1.Document {
	return fleetdoc.Of(&fleetv1.Repository{
		Metadata: &typev1.Metadata{Name: name},
		Spec:     &fleetv1.RepositorySpec{Url: "oci://registry.example/" + name, Type: gitcachev1.RepositoryType_REPOSITORY_TYPE_OCI},
	})
}

// imagePolicyDocument describes a policy that selects tags of the repository images.
func imagePolicyDocument(name string, change ...func(*fleetv1.ImagePolicySpec)) *fleetv1.Document {
	spec := &fleetv1.ImagePolicySpec{Repository: "images"}
	for _, change := range change {
		change(spec)
	}
	return fleetdoc.Of(&fleetv1.ImagePolicy{Metadata: &typev1.Metadata{Name: name}, Spec: spec})
}

// writesTo has a policy write to the folder "apps" of a repository.
func writesTo(repository string) func(*fleetv1.ImagePolicySpec) {
	return func(s *fleetv1.ImagePolicySpec) {
		s.Write = &fleetv1.ImageWrite{Repository: repository, Branch: "main", Path: "apps"}
	}
}

// waitImages waits until the status of an image policy is as it should be.
func (h *hub) waitImages(t *testing.T, name, what string, holds func(*fleetv1.ImagePolicyStatus) bool) *fleetv1.ImagePolicyStatus {
	t.Helper()
	var status *fleetv1.ImagePolicyStatus
	defer func() {
		if t.Failed() {
			t.Logf("status of %s: %v", name, status)
		}
	}()
	await.True(t, what, func() bool {
		policy, err := fleetcalls.Get[*fleetv1.ImagePolicy](t.Context(), h.fleet(t, adminToken), name)
		if err != nil {
			t.Fatal(err)
		}
		status = policy.GetStatus()
		return holds(status)
	})
	return status
}

// syncImages asks for a look, and waits for its outcome.
func (h *hub) syncImages(t *testing.T, name string) *fleetv1.ImagePolicyStatus {
	t.Helper()
	c := h.client(t, adminToken)
	res, err := fleetv1connect.NewImagePolicyServiceClient(c.HTTP, c.BaseURL, c.Options...).SyncImagePolicy(t.Context(), &fleetv1.SyncImagePolicyRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return h.waitImages(t, name, "the look that was asked for", func(s *fleetv1.ImagePolicyStatus) bool { return s.GetObservedRequest() >= res.GetRequest() })
}

// TestImagePolicyWritesWhatItSelects follows tags of an image into Git.
func TestImagePolicyWritesWhatItSelects(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, imageRepository("images"), repositoryDocument("config"))
	h.git.tag("images", "1.0.0", "1.1.0", "2.0.0-rc.1", "latest")
	const others = "replicas: 2\r\nname: web # leat: image=default/other\r\n"
	h.git.putFiles("config", "c1", map[string]string{
		"web.yaml":      others + "image: r.example/web:1.0.0 # leat: image=default/web\r\n",
		"a/values.yaml": "tag: '0.9.0' # leat: tag=default/web\ndigest: x # leat: digest=default/web\n",
		"note.txt":      "image: web:1 # leat: image=default/web\n",
	})
	h.apply(t, imagePolicyDocument("web", writesTo("config"), func(s *fleetv1.ImagePolicySpec) { s.PinDigest = true }))
	pushed := func(s *fleetv1.ImagePolicyStatus) bool { return s.GetCommit() != "" && s.GetProblem() == nil }
	status := h.waitImages(t, "web", "the first push", pushed)
	sum := "sha256:" + digestOfTag("1.1.0")
	if status.GetImage() != "registry.example/images" || status.GetTag() != "1.1.0" || status.GetDigest() != sum || status.GetMarks() != 3 || status.GetSelectedAt() == nil {
		t.Errorf("got %v", status)
	}
	for name, want := range map[string]string{
		"web.yaml":      others + "image: r.example/web:1.1.0@" + sum + " # leat: image=default/web\r\n",
		"a/values.yaml": "tag: '1.1.0' # leat: tag=default/web\ndigest: " + sum + " # leat: digest=default/web\n",
		"note.txt":      "image: web:1 # leat: image=default/web\n",
	} {
		if got := h.git.fileOf("config", name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	pushes := h.git.pushesOf()
	if len(pushes) != 1 || pushes[0].GetBaseCommit() != "c1" || pushes[0].GetBranch() != "main" || pushes[0].GetPullRequest() != nil || len(pushes[0].GetFiles()) != 2 {
		t.Fatalf("got %v, want one push of both files", pushes)
	}
	want := "Update registry.example/images to 1.1.0\n\nLeat's image policy default/web selected this tag, and changes 3 lines in 2 files.\nDigest: " + sum + "\n"
	if got := pushes[0].GetMessage(); got != want {
		t.Errorf("got the message %q, want %q", got, want)
	}

	// Looks that find nothing to do push nothing.
	h.syncImages(t, "web")
	h.syncImages(t, "web")
	if n := len(h.git.pushesOf()); n != 1 {
		t.Errorf("got %d pushes, want one", n)
	}

	// A new tag is followed without anybody asking, and the record names both.
	h.git.tag("images", "1.0.0", "1.1.0", "1.2.0")
	status = h.waitImages(t, "web", "the second push", func(s *fleetv1.ImagePolicyStatus) bool {
		return s.GetTag() == "1.2.0" && pushed(s) && s.GetCommit() == fmt.Sprintf("%040d", 2)
	})
	records, err := h.fleet(t, adminToken).ListAuditRecords(t.Context(), &fleetv1.ListAuditRecordsRequest{Kind: "ImagePolicy", Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, record := range records.GetRecords() {
		if record.GetVerb() == "push" {
			if record.GetSubject() != "imagepolicy:web" {
				t.Errorf("the record of a push is of %q, want the policy", record.GetSubject())
			}
			reasons = append(reasons, record.GetReason())
		}
	}
	if len(reasons) != 2 || !strings.Contains(strings.Join(reasons, "\n"), "1.2.0") || !strings.Contains(strings.Join(reasons, "\n"), status.GetCommit()[:12]) {
		t.Errorf("got the records %q, want one of each push", reasons)
	}

	// The repositories are in use.
	for _, name := range []string{"images", "config"} {
		if err := fleetcalls.Delete[*fleetv1.Repository](t.Context(), h.fleet(t, adminToken), name); rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_IN_USE {
			t.Errorf("delete %s: got %v, want that it is in use", name, err)
		}
	}
}

// TestImagePolicyProposes opens one pull request for each selection.
func TestImagePolicyProposes(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, imageRepository("images"), repositoryDocument("config"))
	h.git.tag("images", "1.0.0")
	h.git.putFiles("config", "c1", map[string]string{"web.yaml": "image: web:0.9.0 # leat: image=default/web\n"})
	h.apply(t, imagePolicyDocument("web", writesTo("config"), func(s *fleetv1.ImagePolicySpec) { s.Write.PullRequest = true }))
	h.waitImages(t, "web", "the pull request", func(s *fleetv1.ImagePolicyStatus) bool { return s.GetPullRequestUrl() != "" })
	pushes := h.git.pushesOf()
	if len(pushes) != 1 || pushes[0].GetBranch() != "main" || pushes[0].GetPullRequest().GetBranch() != "leat/image/default/web" ||
		pushes[0].GetPullRequest().GetTitle() != "Update registry.example/images to 1.0.0" {
		t.Fatalf("got %v", pushes)
	}
	// A commit that changes other files is no reason for another one.
	h.git.putFiles("config", "c2", map[string]string{"web.yaml": "image: web:0.9.0 # leat: image=default/web\n", "other.yaml": "a: 1\n"})
	h.git.tag("images", "1.0.0", "0.1.0")
	asked := h.git.asks("config/apps")
	await.True(t, "a look at the commit", func() bool { return h.git.asks("config/apps") > asked })
	if n := len(h.git.pushesOf()); n != 1 {
		t.Errorf("got %d pushes, want one", n)
	}
	// A person who asks for it gets it again, and so does a new tag.
	h.syncImages(t, "web")
	await.True(t, "the push that a person asked for", func() bool { return len(h.git.pushesOf()) == 2 })
	h.git.tag("images", "1.0.0", "1.1.0")
	await.True(t, "the push of the new tag", func() bool { return len(h.git.pushesOf()) == 3 })
}

// TestImagePolicyProblems has tags, marks, pushes and repositories be wrong, one after another. One policy's problem does not keep another
// one from its work.
func TestImagePolicyProblems(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, imageRepository("images"), repositoryDocument("config"), repositoryDocument("other"))
	h.git.tag("images", "latest")
	h.git.putFiles("config", "c1", map[string]string{"web.yaml": "image: web:1 # leat: image=default/other\n"})
	h.git.putFiles("other", "o1", map[string]string{"web.yaml": "image: web:1 # leat: image=default/other\n"})
	h.apply(t, imagePolicyDocument("web", writesTo("config")), imagePolicyDocument("other", writesTo("other"), func(s *fleetv1.ImagePolicySpec) {
		s.Select = &fleetv1.ImageSelection{Pattern: "latest", Order: fleetv1.ImageOrder_IMAGE_ORDER_ALPHABETICAL}
	}))
	with := func(reason errorsv1.Reason, part string) func(*fleetv1.ImagePolicyStatus) bool {
		return func(s *fleetv1.ImagePolicyStatus) bool {
			return s.GetProblem().GetReason() == reason && strings.Contains(s.GetProblem().GetMessage(), part)
		}
	}
	h.waitImages(t, "web", "no tag", with(errorsv1.Reason_REASON_IMAGE_NONE_SELECTED, "none of the 1 tag"))
	h.wantProblem(t, "ImagePolicy", fleetv1.ProblemSeverity_PROBLEM_SEVERITY_DEGRADED, "none of the")
	h.waitImages(t, "other", "the push of the other policy", func(s *fleetv1.ImagePolicyStatus) bool { return s.GetCommit() != "" })
	h.git.tag("images", "latest", "1.0.0")
	h.waitImages(t, "web", "no mark", with(errorsv1.Reason_REASON_IMAGE_NO_MARKS, "# leat: image=default/web"))
	h.git.putFiles("config", "c2", map[string]string{"web.yaml": "a: 1\nb: {image: 'web:1'} # leat: image=default/web\nimage: web:1 # leat: image=default/web\n"})
	status := h.waitImages(t, "web", "a mark that cannot be used", with(errorsv1.Reason_REASON_IMAGE_NO_MARKS, "1 of 2 marks cannot be used: apps/web.yaml:2: "))
	await.True(t, "the push of the mark that can be used", func() bool {
		return strings.HasSuffix(h.git.fileOf("config", "web.yaml"), "\nimage: web:1.0.0 # leat: image=default/web\n")
	})
	if status.GetMarks() != 2 {
		t.Errorf("got %v, want two marks", status)
	}
	h.git.refusePushes(rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_PUSH_NOT_ALLOWED, "the repository's push option does not name main"))
	h.git.putFiles("config", "c3", map[string]string{"web.yaml": "image: web:0 # leat: image=default/web\n"})
	h.waitImages(t, "web", "a push that is not allowed", with(errorsv1.Reason_REASON_PUSH_NOT_ALLOWED, "does not name main"))
	h.git.refusePushes(nil)
	h.syncImages(t, "web")
	h.waitImages(t, "web", "the end of the problem", func(s *fleetv1.ImagePolicyStatus) bool { return s.GetProblem() == nil })
	h.git.refuse("images", rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE, "the registry does not answer"))
	h.syncImages(t, "web")
	h.waitImages(t, "web", "the registry's failure", with(errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE, "the registry does not answer"))
}

// TestSecImagePolicyOverwritesNothing has people push between a look's reading and its push.
func TestSecImagePolicyOverwritesNothing(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, imageRepository("images"), repositoryDocument("config"))
	h.git.tag("images", "1.0.0")
	h.git.putFiles("config", "c1", map[string]string{"web.yaml": "image: web:0.9.0 # leat: image=default/web\n"})
	h.git.mu.Lock()
	h.git.images.before = func() {
		h.git.putFiles("config", "c2", map[string]string{"web.yaml": "# by a person\nimage: web:0.9.1 # leat: image=default/web\n"})
	}
	h.git.mu.Unlock()
	h.apply(t, imagePolicyDocument("web", writesTo("config")))
	h.waitImages(t, "web", "the push", func(s *fleetv1.ImagePolicyStatus) bool { return s.GetCommit() != "" })
	if pushes := h.git.pushesOf(); len(pushes) != 1 || pushes[0].GetBaseCommit() != "c2" {
		t.Errorf("got %v, want one push on the person's commit", pushes)
	}
	if got := h.git.fileOf("config", "web.yaml"); got != "# by a person\nimage: web:1.0.0 # leat: image=default/web\n" {
		t.Errorf("got %q, want the person's line kept", got)
	}
}

// TestSecImagePolicyWritesOnlyTags has a registry that lies about tags and digests.
func TestSecImagePolicyWritesOnlyTags(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, imageRepository("images"), repositoryDocument("config"))
	h.git.tag("images", "zz\n- evil: true", "zz # leat: x", "zz: a", "../zz", strings.Repeat("z", 200), "a")
	h.git.mu.Lock()
	h.git.images.tags["images"]["b"] = "sha256:\nevil: true"
	h.git.mu.Unlock()
	h.git.putFiles("config", "c1", map[string]string{"web.yaml": "image: web:0 # leat: image=default/web\n"})
	byText := func(s *fleetv1.ImagePolicySpec) {
		s.Select = &fleetv1.ImageSelection{Order: fleetv1.ImageOrder_IMAGE_ORDER_ALPHABETICAL}
	}
	h.apply(t, imagePolicyDocument("web", writesTo("config"), byText, func(s *fleetv1.ImagePolicySpec) { s.PinDigest = true }))
	status := h.waitImages(t, "web", "the refusal of the digest", func(s *fleetv1.ImagePolicyStatus) bool {
		return s.GetProblem().GetReason() == errorsv1.Reason_REASON_REPOSITORY_NOT_READY && strings.Contains(s.GetProblem().GetMessage(), ":b is not known")
	})
	if status.GetTag() != "" || len(h.git.pushesOf()) != 0 {
		t.Errorf("got %v and %v, want nothing selected or pushed", status, h.git.pushesOf())
	}
	h.apply(t, imagePolicyDocument("web", writesTo("config"), byText))
	h.waitImages(t, "web", "the push", func(s *fleetv1.ImagePolicyStatus) bool { return s.GetCommit() != "" && s.GetTag() == "b" })
	if got := h.git.fileOf("config", "web.yaml"); got != "image: web:b # leat: image=default/web\n" {
		t.Errorf("got %q", got)
	}
}

// TestSecImagePoliciesStayInTheirProject has an editor of a project name what is not theirs.
func TestSecImagePoliciesStayInTheirProject(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	project := func(document *fleetv1.Document, name string) *fleetv1.Document {
		if repository := document.GetRepository(); repository != nil {
			repository.Metadata.Project = name
		}
		if policy := document.GetImagePolicy(); policy != nil {
			policy.Metadata.Project = name
		}
		return document
	}
	c.apply(t, fleetdoc.Of(&fleetv1.Project{Metadata: &typev1.Metadata{Name: "shop"}}))
	c.apply(t, imageRepository("images"), repositoryDocument("config"), repositoryDocument("fleet"),
		project(imageRepository("images"), "shop"), project(repositoryDocument("config"), "shop"), fleetSourceDocument("", "tree", "fleet", wholeHub, func(s *fleetv1.FleetSourceSpec) { s.Suspended = true }))
	ada, _ := c.join(t, "ada")
	c.bind(t, "ada", &fleetv1.AccessBindingSpec{
		Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Projects: &fleetv1.ProjectSelection{Names: []string{"shop"}},
	})
	boris, _ := c.join(t, "boris")
	c.bind(t, "boris", &fleetv1.AccessBindingSpec{
		Users: []string{"boris"}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Projects: &fleetv1.ProjectSelection{Names: []string{"default"}},
	})
	in := func(name string, change ...func(*fleetv1.ImagePolicySpec)) *fleetv1.Document {
		return project(imagePolicyDocument("web", change...), name)
	}
	from := func(repository string) func(*fleetv1.ImagePolicySpec) {
		return func(s *fleetv1.ImagePolicySpec) { s.Repository = repository }
	}
	c.attempts(t, ada, []attempt{
		{"tags of another project", "REFERENCE_NOT_FOUND", in("shop", from("default/images"))},
		{"a repository of another project", "FIELD_INVALID", in("shop", writesTo("default/config"))},
		{"a policy of another project", "ACCESS_DENIED", in("default", writesTo("config"))},
		{"a Git repository as an image", "FIELD_INVALID", in("shop", from("config"))},
		{"a registry to write to", "FIELD_INVALID", in("shop", writesTo("images"))},
		{"a branch that is an option", "FIELD_INVALID", in("shop", writesTo("config"), func(s *fleetv1.ImagePolicySpec) { s.Write.Branch = "--force" })},
		{"a folder outside", "FIELD_INVALID", in("shop", writesTo("config"), func(s *fleetv1.ImagePolicySpec) { s.Write.Path = "../x" })},
		{"an expression without end", "FIELD_INVALID", in("shop", func(s *fleetv1.ImagePolicySpec) {
			s.Select = &fleetv1.ImageSelection{Pattern: strings.Repeat("(a{1000}){1000}", 9)}
		})},
		{"their own", "", in("shop", writesTo("config"))},
	})
	c.attempts(t, boris, []attempt{
		{"the repository of a fleet source with more rights", "ACCESS_DENIED", in("default", writesTo("fleet"))},
		{"a repository that no fleet source reads", "", in("default", writesTo("config"))},
	})
}
