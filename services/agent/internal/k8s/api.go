// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/render"
)

// Cluster is the Kubernetes API as this package needs it. Implementations retry what is worth retrying within ctx; what
// they return is final for this run. Errors are *Problem where they have a reason of their own (ApplyRejected,
// ApplyConflict, ClusterUnreachable), and no error holds an object's data. Methods may be called concurrently.
type Cluster interface {
	// As returns the same cluster, in which everything is done as a service account. The zero Account is the agent itself.
	// What the account may not do is a TenantForbidden.
	As(account Account) (Cluster, error)
	// Namespaced tells whether objects of a kind live in namespaces. An unknown kind is an ApplyRejected.
	Namespaced(ctx context.Context, kind schema.GroupVersionKind) (bool, error)
	// Get reads an object. ErrNotFound where there is none, or where the kind does not exist.
	Get(ctx context.Context, ref inventory.Ref) (*unstructured.Unstructured, error)
	// Apply server-side-applies obj, which must not be changed, and returns what the cluster made of it.
	Apply(ctx context.Context, obj *unstructured.Unstructured, options ApplyOptions) (*unstructured.Unstructured, error)
	// Reown replaces the managedFields of an object as it was read, takes kubectl's record of what it applied last off it, and
	// returns it as it is then. ErrReplaced when it is another, or has changed since.
	Reown(ctx context.Context, live *unstructured.Unstructured, managedFields []any) (*unstructured.Unstructured, error)
	// AwaitDefined waits until the kinds of a CustomResourceDefinition that was just applied can be used.
	AwaitDefined(ctx context.Context, definition *unstructured.Unstructured) error
	// EnsureNamespace creates a namespace unless it exists.
	EnsureNamespace(ctx context.Context, name string) error
	// Delete deletes the object with that UID, and returns what is left of it: nil when it is gone already, and otherwise an
	// object that is on its way. No error when there is none; ErrReplaced when there is another of that name, or one that
	// does not meet the options.
	Delete(ctx context.Context, object inventory.Object, options DeleteOptions) (remains *unstructured.Unstructured, err error)
	// Contents lists objects that would go with a Namespace or CustomResourceDefinition: not what Kubernetes itself puts into
	// every namespace, what belongs to an owner and goes with that, nor what is on its way already. A few are enough.
	Contents(ctx context.Context, container inventory.Ref) ([]inventory.Object, error)
	// Release takes Leat's label off the object with that UID. Errors as Delete.
	Release(ctx context.Context, object inventory.Object) error
	// Follow tells see of one object until ctx is done, whatever label it has: at once, and whenever it changes.
	Follow(ctx context.Context, ref inventory.Ref, see Sight)
	// Logs returns the last lines of what a Pod, or the Pods of a Job, have written: of the containers that failed in the Pod
	// that failed last. Empty where there is none, and for other kinds.
	Logs(ctx context.Context, object inventory.Object) (string, error)
}

// Sight is told of an object that is followed, one call at a time: nil while there is no such object, or no such kind. The
// error says why it cannot be seen. The object is the callee's.
type Sight func(live *unstructured.Unstructured, err error)

// ApplyOptions modify Cluster.Apply.
type ApplyOptions struct {
	Force  bool // take fields from other managers
	DryRun bool // change nothing
	// Confidential keeps the cluster's words out of errors: they may repeat what the object holds.
	Confidential bool
}

// DeleteOptions modify Cluster.Delete.
type DeleteOptions struct {
	// Propagation is what becomes of the object's dependents.
	Propagation syncpolicy.Propagation
	// ResourceVersion is the one that the object must still have. Empty: any.
	ResourceVersion string
}

// Bundles gives access to content.
type Bundles interface {
	// Open returns the canonical tar, whose digest has been verified. It downloads it if need be. What it is expected to
	// resemble, base, may help with that; the zero digest is none.
	Open(ctx context.Context, d, base digest.Digest) (io.ReadCloser, error)
}

// Configs gives access to configurations.
type Configs interface {
	// Config returns the variables of a service that has a configuration: those that its ConfigDigest names, and no others.
	// Errors are *Problem (DependencyUnavailable) unless ctx ended.
	Config(ctx context.Context, s Service) (render.Variables, error)
}

// Inventories keeps records in the cluster. Saving is atomic: a reader sees the old record or the new one.
type Inventories interface {
	// List returns all records, with the marks that people put on them. One that cannot be read is an error: pruning must not start from half the truth.
	List(ctx context.Context) ([]inventory.Record, error)
	// Save stores a record in place of the service's previous one.
	Save(ctx context.Context, record inventory.Record) error
	// Delete removes a service's record, if there is one.
	Delete(ctx context.Context, service string) error
}

// Fingerprints keeps what was applied, across restarts. It is a cache: whatever is lost of it is only slower.
type Fingerprints interface {
	// Load returns what was saved last for a service; nil when there is nothing, or nothing that can be read.
	Load(ctx context.Context, service string) fingerprint.Table
	// Save replaces it. A reader sees the old table or the new one, also after a crash.
	Save(ctx context.Context, service string, table fingerprint.Table) error
	// Delete removes it, if there is something.
	Delete(ctx context.Context, service string) error
}

// Reporter hears what becomes of services. Its methods return at once.
type Reporter interface {
	// Report tells a service's new status.
	Report(status Status)
	// Forget tells that a service is gone from the cluster.
	Forget(service string)
	// Adopted tells that a plan is worked on from now on. Its services' statuses follow at once.
	Adopted(version string)
}

// Watches observes objects that carry Leat's label, and tells the engine through Observe and Synced.
type Watches interface {
	// Watch sets the kinds to observe, in place of those before. It returns at once.
	Watch(kinds []schema.GroupVersionKind)
	// Recheck lists, judges and observes every object again: the rules of judging changed. It returns at once.
	Recheck()
}

// Observation is what a watch saw of one object.
type Observation struct {
	// Service is the value of the object's label.
	Service string
	// Object is the object.
	Object inventory.Object
	// ResourceVersion orders observations of one object.
	ResourceVersion string
	// Health is the verdict on it.
	Health health.Verdict
	// Fingerprint sums up what Leat's field manager has of the object.
	Fingerprint fingerprint.Sum
	// Terminating tells that the object is being deleted.
	Terminating bool
	// Deleted tells that the object is gone. Then Fingerprint and Terminating are zero.
	Deleted bool
}

// FieldManager is Leat's name in managedFields.
const FieldManager = fields.Manager

// ServiceLabel is on every object that Leat applies; its value is the service's name. It is how watches find the objects,
// and how a service sees that an object belongs to another.
const ServiceLabel = "leat.dev/service"
