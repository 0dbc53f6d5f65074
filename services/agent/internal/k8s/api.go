// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package k8s is the port through which the agent's core uses the Kubernetes API of its cluster.
package k8s

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// FieldManager is Leat's name in managedFields.
const FieldManager = fields.Manager

// The labels on every object that Leat applies, by which watches find it, and a service recognises
// the objects of other services. See ServiceOf.
const (
	// ServiceLabel has the service's name in its project.
	ServiceLabel = "leat.dev/service"
	// ProjectLabel has the service's project. Objects of the project default do not have it.
	ProjectLabel = "leat.dev/project"
)

// API is the Kubernetes API, used as one account. Implementations retry temporary failures within
// ctx; an error that they return is final for this run. Errors are *reason.Problem if they have a
// reason of their own (ApplyRejected, ApplyConflict, ClusterUnreachable, TenantForbidden if the
// account lacks the right). No error contains an object's data. Methods may be called concurrently.
type API interface {
	Reader
	Writer
	// As returns the same cluster, used as a service account. The zero Account is the agent itself.
	As(account Account) (API, error)
}

// Reader reads objects.
type Reader interface {
	// Namespaced reports whether objects of a kind live in namespaces. An unknown kind is an
	// ApplyRejected.
	Namespaced(ctx context.Context, kind schema.GroupVersionKind) (bool, error)
	// Get reads an object. ErrNotFound: neither the object nor possibly its kind exists.
	Get(ctx context.Context, ref inventory.Ref) (*unstructured.Unstructured, error)
	// List returns the objects of a kind in a namespace, which cluster-scoped kinds ignore, sorted by
	// name. ErrNotFound: the kind does not exist. More than most objects are an error.
	List(ctx context.Context, kind schema.GroupVersionKind, namespace string, most int) ([]*unstructured.Unstructured, error)
	// Contents lists objects that would be deleted together with a Namespace or
	// CustomResourceDefinition. It leaves out what Kubernetes itself puts into every namespace,
	// objects that are deleted with their owner, and objects that are being deleted already. A few
	// objects suffice.
	Contents(ctx context.Context, container inventory.Ref) ([]inventory.Object, error)
	// Follow calls see with the object at once and after every change, until ctx is done. The
	// object need not carry Leat's label.
	Follow(ctx context.Context, ref inventory.Ref, see FollowFunc)
	// Logs returns the last lines that a Pod, or the Pods of a Job, have written: the lines of the
	// failed containers in the Pod that failed last. It returns "" if the log is empty, or the kind
	// has no logs.
	Logs(ctx context.Context, object inventory.Object) (string, error)
	// Symptoms returns why a workload, a Pod or a PersistentVolumeClaim hangs: what its Pods, their
	// claims and the events about them report. It returns "" if they report nothing, or the kind
	// has no symptoms. It reads a bounded number of objects and bytes.
	Symptoms(ctx context.Context, object inventory.Object) (string, error)
}

// Writer changes objects.
type Writer interface {
	// Apply server-side-applies obj, which it does not modify, and returns the resulting object.
	// Errors include *ConflictError and *ImmutableError.
	Apply(ctx context.Context, obj *unstructured.Unstructured, options ApplyOptions) (*unstructured.Unstructured, error)
	// CreateMissing creates obj, which it does not modify, unless the object exists, and returns the
	// object in the cluster: an existing one as it is. It returns the errors of Apply.
	CreateMissing(ctx context.Context, obj *unstructured.Unstructured, options ApplyOptions) (*unstructured.Unstructured, error)
	// Reown replaces the managedFields of an object as it was read, removes kubectl's record of
	// what it applied last, and returns the resulting object. ErrReplaced: it is another object, or
	// it changed since it was read.
	Reown(ctx context.Context, live *unstructured.Unstructured, managedFields []any) (*unstructured.Unstructured, error)
	// AwaitDefined blocks until the kinds of a CustomResourceDefinition that was just applied can
	// be used.
	AwaitDefined(ctx context.Context, definition *unstructured.Unstructured) error
	// EnsureNamespace creates a namespace unless it exists.
	EnsureNamespace(ctx context.Context, name string) error
	// Delete deletes the object with that UID. It returns nil if the object is gone, and otherwise
	// the object that is being deleted. A missing object is not an error. ErrReplaced: another
	// object has that name, or the object does not meet the options.
	Delete(ctx context.Context, object inventory.Object, options DeleteOptions) (remains *unstructured.Unstructured, err error)
	// Release removes Leat's labels from the object with that UID, and lets go of its fields: they
	// keep their values, and the next deployer alone decides on them. Errors as Delete.
	Release(ctx context.Context, object inventory.Object) error
}

// FollowFunc receives the states of an object, one call at a time: nil while neither the object nor
// possibly its kind exists. The error is why the object cannot be read at the moment. The object
// belongs to the callee.
type FollowFunc func(live *unstructured.Unstructured, err error)

// ApplyOptions modify Writer.Apply and Writer.CreateMissing.
type ApplyOptions struct {
	Force  bool // take fields from other managers; CreateMissing ignores it
	DryRun bool // change nothing
	// Confidential keeps the API server's words out of errors: they may repeat the object's data.
	Confidential bool
}

// DeleteOptions modify Writer.Delete.
type DeleteOptions struct {
	// Propagation is the effect on the object's dependents.
	Propagation syncpolicy.Propagation
	// ResourceVersion is the version that the object must still have. Empty: any.
	ResourceVersion string
}

// IsAppliedByLeat reports whether the API server recorded Leat as a manager of the object's fields.
func IsAppliedByLeat(live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == FieldManager })
}

// ServiceOf returns the service that an object's labels name, as a plan names it, or "". It copies
// nothing, unlike GetLabels.
func ServiceOf(o *unstructured.Unstructured) string {
	metadata, _ := o.Object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	service, _ := labels[ServiceLabel].(string)
	if service == "" {
		return ""
	}
	project, _ := labels[ProjectLabel].(string)
	return objectname.Join(project, service)
}

// Mark sets the labels of a service, as a plan names it. It removes a project that a manifest claims.
func Mark(labels map[string]string, service string) {
	project, name := objectname.Split(service)
	delete(labels, ProjectLabel)
	if labels[ServiceLabel] = name; project != objectname.Default {
		labels[ProjectLabel] = project
	}
}

// Unmark removes the labels of a service from an object.
func Unmark(o *unstructured.Unstructured) {
	for _, label := range []string{ServiceLabel, ProjectLabel} {
		unstructured.RemoveNestedField(o.Object, "metadata", "labels", label)
	}
}
