// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

const (
	// podNameExtra is the attribute that the API server finds in the token of a Pod.
	podNameExtra = "authentication.kubernetes.io/pod-name"
	// maxOwners bounds the owners of the Pod, one above the other.
	maxOwners = 8
)

// Self finds what the agent is made of.
type Self struct{ Client *Client }

// Ask returns what the agent is made of. It asks the API server who the agent is, because a token of a Pod names the
// Pod: no setting can name another one. Error: the API server does not answer.
func (s Self) Ask(ctx context.Context) (k8s.Self, error) {
	c := s.Client
	self := k8s.Self{
		Base:  []inventory.Key{{Kind: "Namespace", Name: c.namespace}},
		Needs: []inventory.Key{{Kind: secretKind, Namespace: c.namespace, Name: keepName}},
	}
	set, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return self, fmt.Errorf("make client: %w", err)
	}
	me, _, err := ask(ctx, s, "SelfSubjectReview", func(ctx context.Context) (*authenticationv1.SelfSubjectReview, error) {
		return set.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	})
	if err != nil || me == nil {
		return self, err
	}
	account, isAccount := strings.CutPrefix(me.Status.UserInfo.Username, "system:serviceaccount:")
	namespace, name, isWhole := strings.Cut(account, ":")
	if !isAccount || !isWhole {
		return self, nil
	}
	self.Account = k8s.Account{Namespace: namespace, Name: name}
	self.Base = append(self.Base, inventory.Key{Kind: "ServiceAccount", Namespace: namespace, Name: name})
	if namespace != c.namespace {
		self.Base = append(self.Base, inventory.Key{Kind: "Namespace", Name: namespace})
	}
	names := me.Status.UserInfo.Extra[podNameExtra]
	if len(names) != 1 {
		return self, nil
	}
	own := inventory.Key{Kind: "Pod", Namespace: namespace, Name: names[0]}
	self.Workloads = append(self.Workloads, own)
	pod, refusal, err := ask(ctx, s, "Pod", func(ctx context.Context) (*corev1.Pod, error) {
		return set.CoreV1().Pods(namespace).Get(ctx, names[0], metav1.GetOptions{})
	})
	if err != nil {
		return self, err
	}
	if pod == nil {
		self.Gap = &k8s.Gap{Object: own, Cause: refusal.Error()}
		return self, nil
	}
	self.Needs = append(self.Needs, neededBy(pod)...)
	return self, s.addOwners(ctx, &self, pod)
}

// addOwners adds the objects that own an object of the agent's namespace, from the nearest one up.
func (s Self) addOwners(ctx context.Context, self *k8s.Self, object metav1.Object) error {
	namespace := object.GetNamespace()
	for range maxOwners {
		owner := metav1.GetControllerOf(object)
		if owner == nil {
			return nil
		}
		kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
		ref := inventory.Ref{Key: inventory.Key{Group: kind.Group, Kind: kind.Kind, Namespace: namespace, Name: owner.Name}, Version: kind.Version}
		self.Workloads = append(self.Workloads, ref.Key)
		resource, err := s.Client.resource(ctx, ref)
		if k8s.IsUnknownKind(err) {
			self.Gap = &k8s.Gap{Object: ref.Key, Cause: err.Error()}
			return nil
		}
		if err != nil {
			return err
		}
		live, refusal, err := ask(ctx, s, ref.Kind, func(ctx context.Context) (metav1.Object, error) {
			return resource.Get(ctx, ref.Name, metav1.GetOptions{})
		})
		if err != nil {
			return err
		}
		if live == nil {
			self.Gap = &k8s.Gap{Object: ref.Key, Cause: refusal.Error()}
			return nil
		}
		object = live
	}
	return nil
}

// ask is [request] for something that the agent may not be allowed to read: then, and if it does not exist, the answer
// is empty, and refusal is the API server's.
func ask[T any](ctx context.Context, s Self, kind string, do func(context.Context) (T, error)) (answer T, refusal, err error) {
	answer, err = request(ctx, s.Client, kind, func(ctx context.Context) (T, error) {
		answer, err := do(ctx)
		if refusal = nil; apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			refusal = err
		}
		return answer, err
	})
	if refusal == nil && errors.Is(err, k8s.ErrNotFound) {
		refusal = err
	}
	if refusal != nil {
		return *new(T), refusal, nil
	}
	return answer, nil, err
}

// neededBy returns the objects that a Pod cannot do without.
func neededBy(pod *corev1.Pod) []inventory.Key {
	var keys []inventory.Key
	need := func(kind, name string, isOptional *bool) {
		if name != "" && (isOptional == nil || !*isOptional) {
			keys = append(keys, inventory.Key{Kind: kind, Namespace: pod.Namespace, Name: name})
		}
	}
	for _, secret := range pod.Spec.ImagePullSecrets {
		need(secretKind, secret.Name, nil)
	}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			need("PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName, nil)
		}
		if v.Secret != nil {
			need(secretKind, v.Secret.SecretName, v.Secret.Optional)
		}
		if v.ConfigMap != nil {
			need("ConfigMap", v.ConfigMap.Name, v.ConfigMap.Optional)
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.Secret != nil {
				need(secretKind, source.Secret.Name, source.Secret.Optional)
			}
			if source.ConfigMap != nil {
				need("ConfigMap", source.ConfigMap.Name, source.ConfigMap.Optional)
			}
		}
	}
	for _, container := range append(append([]corev1.Container(nil), pod.Spec.InitContainers...), pod.Spec.Containers...) {
		for _, from := range container.EnvFrom {
			if from.SecretRef != nil {
				need(secretKind, from.SecretRef.Name, from.SecretRef.Optional)
			}
			if from.ConfigMapRef != nil {
				need("ConfigMap", from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
			}
		}
		for _, variable := range container.Env {
			if variable.ValueFrom == nil {
				continue
			}
			if ref := variable.ValueFrom.SecretKeyRef; ref != nil {
				need(secretKind, ref.Name, ref.Optional)
			}
			if ref := variable.ValueFrom.ConfigMapKeyRef; ref != nil {
				need("ConfigMap", ref.Name, ref.Optional)
			}
		}
	}
	return keys
}
