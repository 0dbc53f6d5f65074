// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/leatdev/leat/cli/internal/gitref"
	"github.com/leatdev/leat/cli/internal/up/demo"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
)

const (
	// planAnnotation marks the objects that leat up has made, with a digest of their planned form.
	// While the digest stays the same, leat up keeps a user's changes to the object. An object without the
	// annotation belongs to a user, because the user's document has replaced it.
	planAnnotation = "leat.dev/up-plan"

	demoName = "demo"

	// pollInterval is short, because users watch for their pushes.
	pollInterval = 30 * time.Second
)

// plan is the intended content of the fleet.
type plan struct {
	clusters   []string
	repository string // name
	namespace  string
	objects    []*fleetv1.Document // in the order of their dependencies
}

// newPlan returns the plan for the options. repoURL is where the repository is served.
func newPlan(o Options, repoURL string) (plan, error) {
	p := plan{repository: demoName, namespace: demoName}
	source := &typev1.Source{Repository: demoName, Path: demo.Path, Ref: gitref.Parse("main")}
	if o.RepoURL != "" {
		p.repository, p.namespace = repoName(o.RepoURL), o.Namespace
		source = &typev1.Source{Repository: p.repository, Path: o.Path, Root: o.Root, Ref: gitref.Parse(o.Ref)}
	}
	for i := range o.Clusters {
		p.clusters = append(p.clusters, numbered(demoName, i))
	}
	for _, name := range p.clusters {
		p.add(&fleetv1.Cluster{
			Metadata: &typev1.Metadata{Name: name},
			Spec:     &fleetv1.ClusterSpec{Description: "made by leat up"},
		})
	}
	p.add(&fleetv1.Repository{
		Metadata: &typev1.Metadata{Name: p.repository},
		Spec:     &fleetv1.RepositorySpec{Url: repoURL, PollInterval: durationpb.New(pollInterval)},
	})
	for i, cluster := range p.clusters {
		p.add(&fleetv1.Service{
			Metadata: &typev1.Metadata{Name: numbered(p.repository, i)},
			Spec:     &fleetv1.ServiceSpec{Cluster: cluster, Namespace: p.namespace, Sources: []*typev1.Source{source}},
		})
	}
	p.namespace = cmp.Or(p.namespace, "default")
	return p, p.mark()
}

// numbered returns "demo", "demo-2", "demo-3" …
func numbered(name string, i int) string {
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, i+1)
}

func (p *plan) add(object proto.Message) { p.objects = append(p.objects, fleetdoc.Of(object)) }

// mark annotates every object with a digest of itself.
func (p *plan) mark() error {
	for _, object := range p.objects {
		content, err := proto.MarshalOptions{Deterministic: true}.Marshal(object)
		if err != nil {
			return fmt.Errorf("plan the fleet: %w", err)
		}
		sum := sha256.Sum256(content)
		document.Metadata(object).Annotations = map[string]string{planAnnotation: hex.EncodeToString(sum[:8])}
	}
	return nil
}

// changes compares the plan with the content of the fleet. It returns what to apply, and which
// services and repositories of an earlier plan to remove. Clusters stay as they are, because their
// agents are enrolled, and others may use them and their labels. So do objects that a user has put in
// the place of planned ones.
func (p *plan) changes(existing []*fleetv1.Document) (apply, remove []*fleetv1.Document) {
	planned, found := byID(p.objects), byID(existing)
	for _, object := range p.objects {
		before := found[idOf(object)]
		if before == nil || isOutdated(before, object) {
			apply = append(apply, object)
		}
	}
	for _, kind := range []string{"Service", "Repository"} { // in the order in which they can be removed
		for _, object := range existing {
			found, _ := document.Identify(object)
			_, ours := document.Metadata(object).GetAnnotations()[planAnnotation]
			if found == kind && ours && planned[idOf(object)] == nil {
				remove = append(remove, object)
			}
		}
	}
	return apply, remove
}

// isOutdated reports whether an object was made by leat up with other options, and replaces nothing of a
// user's.
func isOutdated(before, planned *fleetv1.Document) bool {
	mark, isOurs := document.Metadata(before).GetAnnotations()[planAnnotation]
	return isOurs && before.GetCluster() == nil && mark != document.Metadata(planned).GetAnnotations()[planAnnotation]
}

func byID(objects []*fleetv1.Document) map[string]*fleetv1.Document {
	found := make(map[string]*fleetv1.Document, len(objects))
	for _, object := range objects {
		found[idOf(object)] = object
	}
	return found
}

func idOf(object *fleetv1.Document) string {
	kind, name := document.Identify(object)
	return kind + "/" + name
}
