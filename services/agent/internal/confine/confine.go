// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package confine makes the Reader of a service: the one way in which the agent reads an object of
// the cluster because a service's spec names it. Such objects are its dependencies, the objects
// that its charts look up or that its configuration refers to, and its keys.
//
// It promises:
//
//   - A Reader reads with the rights of the service's account, or as the agent for a service without
//     one.
//   - With either, it reads within the limits of the service's project only: namespaces, and kinds of
//     objects without a namespace.
//   - It reads nothing in the agent's own namespace, which holds the keys of the cluster, unless the
//     service's account is in that namespace.
//   - A refusal depends on the limits and on the kind alone, so it does not reveal whether the object
//     exists.
//
// The hub compares documents with limits, too. It does not replace this package: limits may become
// narrower after a document was applied, and a hub may be hostile.
package confine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// KeysSecret is the Secret with the age keys of a service: in the namespace of its account, or in the
// agent's own for services without an account.
const KeysSecret = "leat-sops"

// Cluster is read by a Reader: the cluster as the service's account uses it.
type Cluster interface {
	// The methods are as in [k8s.Reader].
	Namespaced(ctx context.Context, kind schema.GroupVersionKind) (bool, error)
	Get(ctx context.Context, ref inventory.Ref) (*unstructured.Unstructured, error)
	List(ctx context.Context, kind schema.GroupVersionKind, namespace string, most int) ([]*unstructured.Unstructured, error)
	Follow(ctx context.Context, ref inventory.Ref, see k8s.FollowFunc)
}

// Bounds confine the reads of a service.
type Bounds struct {
	// Service is the service's name, as a plan names it.
	Service string
	// Account is the one that reads. Zero: the agent itself.
	Account k8s.Account
	// Limits are the limits of the service's project. Nil: none.
	Limits *syncpolicy.Limits
	// Home is the agent's own namespace.
	Home string
}

// Equal reports whether both allow the same reads, by the same account.
func (b Bounds) Equal(other Bounds) bool {
	if b.Service != other.Service || b.Account != other.Account || b.Home != other.Home || (b.Limits == nil) != (other.Limits == nil) {
		return false
	}
	return b.Limits == nil || equal(b.Limits.Namespaces, other.Limits.Namespaces) && equal(b.Limits.ClusterScopedKinds, other.Limits.ClusterScopedKinds)
}

func equal(a, b syncpolicy.AllowList) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }

// Refusal is the error of a read beyond the bounds. Its reason is ProjectForbidden for the limits of
// the project, and TenantForbidden for the agent's namespace.
type Refusal struct{ *reason.Problem }

// Unwrap returns the problem.
func (e *Refusal) Unwrap() error { return e.Problem }

// IsRefusal reports whether err is a Refusal, and not an answer of the cluster.
func IsRefusal(err error) bool {
	_, ok := errors.AsType[*Refusal](err)
	return ok
}

// Reader reads objects on behalf of one service. It is immutable and safe for concurrent use.
// Errors are *Refusal and the errors of [k8s.Reader].
type Reader struct {
	cluster Cluster
	bounds  Bounds
	only    inventory.Ref // zero: whatever the bounds allow
}

// New returns a Reader within the bounds. The cluster is used as the account of the bounds.
func New(cluster Cluster, b Bounds) *Reader { return &Reader{cluster: cluster, bounds: b} }

// Bounds returns what confines the reader.
func (r *Reader) Bounds() Bounds { return r.bounds }

// Keys returns a Reader of the Secret with the service's keys alone, and the name of that Secret. The
// name is fixed, so this Reader needs no bounds, also where the Secret is the agent's own.
func (r *Reader) Keys() (*Reader, inventory.Ref) {
	namespace := cmp.Or(r.bounds.Account.Namespace, r.bounds.Home)
	ref := inventory.Ref{Key: inventory.Key{Kind: "Secret", Namespace: namespace, Name: KeysSecret}, Version: "v1"}
	return &Reader{cluster: r.cluster, bounds: r.bounds, only: ref}, ref
}

// Namespaced reports whether objects of a kind live in namespaces. Kinds are public, so it has no
// bounds. An unknown kind is an ApplyRejected.
func (r *Reader) Namespaced(ctx context.Context, kind schema.GroupVersionKind) (bool, error) {
	return r.cluster.Namespaced(ctx, kind)
}

// Get reads an object. k8s.ErrNotFound: neither the object nor possibly its kind exists.
func (r *Reader) Get(ctx context.Context, ref inventory.Ref) (*unstructured.Unstructured, error) {
	if err := r.admit(ctx, ref); err != nil {
		return nil, err
	}
	return r.cluster.Get(ctx, ref)
}

// List returns the objects of a kind in a namespace, which cluster-scoped kinds ignore, sorted by
// name. It leaves out namespaces that the service may not have. k8s.ErrNotFound: the kind does not
// exist. More than most objects are an error.
func (r *Reader) List(ctx context.Context, kind schema.GroupVersionKind, namespace string, most int) ([]*unstructured.Unstructured, error) {
	ref := inventory.Ref{Key: inventory.Key{Group: kind.Group, Kind: kind.Kind, Namespace: namespace}, Version: kind.Version}
	if err := r.admit(ctx, ref); err != nil {
		return nil, err
	}
	found, err := r.cluster.List(ctx, kind, namespace, most)
	return slices.DeleteFunc(found, func(o *unstructured.Unstructured) bool {
		ref.Namespace, ref.Name = o.GetNamespace(), o.GetName()
		return r.admit(ctx, ref) != nil
	}), err
}

// Follow calls see with the object at once and after every change, until ctx is done; see
// [k8s.Reader]. The error of an object beyond the bounds is a Refusal. Follow looks again at each
// state, because the kind may not exist yet when it begins.
func (r *Reader) Follow(ctx context.Context, ref inventory.Ref, see k8s.FollowFunc) {
	if err := r.admit(ctx, ref); IsRefusal(err) {
		see(nil, err)
		<-ctx.Done()
		return
	}
	r.cluster.Follow(ctx, ref, func(live *unstructured.Unstructured, err error) {
		switch denied := r.admit(ctx, ref); {
		case errors.Is(denied, k8s.ErrNotFound):
			see(nil, err)
		case denied != nil:
			see(nil, denied)
		default:
			see(live, err)
		}
	})
}

// admit returns why the service may not read an object. The name is empty for a list. k8s.ErrNotFound:
// the kind does not exist, so no object does.
func (r *Reader) admit(ctx context.Context, ref inventory.Ref) error {
	if r.only != (inventory.Ref{}) {
		if ref == r.only {
			return nil
		}
		return refuse(reason.TenantForbidden, "this reads the keys of a service, and not %s", ref.Key)
	}
	isNamespaced, err := r.cluster.Namespaced(ctx, schema.GroupVersionKind{Group: ref.Group, Version: ref.Version, Kind: ref.Kind})
	if k8s.IsUnknownKind(err) {
		return fmt.Errorf("%w: %w", k8s.ErrNotFound, err)
	}
	if err != nil {
		return err
	}
	return r.bounds.Admit(ref.Key, isNamespaced)
}

// Admit returns why the service may not read an object, or nil. A key without a name is for all
// objects of the kind.
func (b Bounds) Admit(k inventory.Key, isNamespaced bool) error {
	limits := b.Limits
	if limits == nil {
		limits = &syncpolicy.Limits{}
	}
	if !isNamespaced {
		return b.admitClusterScoped(k, limits)
	}
	switch {
	case b.Home != "" && k.Namespace == b.Home && b.Account.Namespace != b.Home:
		return refuse(reason.TenantForbidden, "services may not read %s, because the namespace %s is the agent's own, and holds the keys of the cluster",
			described(k), b.Home)
	case !limits.Namespaces.Allows(k.Namespace):
		return b.beyond(k, "the namespaces "+limits.Namespaces.String())
	}
	return nil
}

func (b Bounds) admitClusterScoped(k inventory.Key, limits *syncpolicy.Limits) error {
	k.Namespace = ""
	kind := schema.GroupKind{Group: k.Group, Kind: k.Kind}
	switch {
	case !limits.ClusterScopedKinds.Allows(kind.String()):
		return b.beyond(k, "of kinds without a namespace: "+limits.ClusterScopedKinds.String())
	case kind == schema.GroupKind{Kind: "Namespace"} && k.Name != "" && !limits.Namespaces.Allows(k.Name):
		return b.beyond(k, "the namespaces "+limits.Namespaces.String())
	}
	return nil
}

func (b Bounds) beyond(k inventory.Key, allowed string) error {
	return refuse(reason.ProjectForbidden, "the limits of project %s do not allow to read %s; they allow %s", objectname.Project(b.Service), described(k), allowed)
}

// described names an object, or all of a kind.
func described(k inventory.Key) string {
	k.Name = cmp.Or(k.Name, "*")
	return k.String()
}

func refuse(why reason.Reason, format string, args ...any) error {
	return &Refusal{reason.Errorf(why, format, args...)}
}
