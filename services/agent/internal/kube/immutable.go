// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// explain turns the refusal of an apply into an ImmutableError where the change is what was refused, and not the object. The API
// server has one reason for both, Invalid, and says only in words that a field cannot be changed. So it is asked whether it would take
// the same object under another name, which finds what has words of its own, such as the rules of a definition. The usual words
// decide where it would not: what is allocated once, such as the port of a Service, cannot be had under another name.
func (c *Client) explain(
	ctx context.Context, resource dynamic.ResourceInterface, obj *unstructured.Unstructured, raw, refused error,
) error {
	problem, ok := errors.AsType[*reason.Problem](refused)
	status := apierrors.APIStatus(nil)
	if !ok || !apierrors.IsInvalid(raw) || !errors.As(raw, &status) {
		return refused
	}
	fields := unchangeable(status.Status())
	err := c.probe(ctx, resource, obj)
	switch {
	case err == nil && len(fields) == 0:
		fields = causes(status.Status(), func(string) bool { return true })
	case err != nil && len(fields) == 0, apierrors.IsForbidden(err): // it is not the change, or the object would be refused as a new one, too
		return refused
	}
	return &k8s.ImmutableError{Problem: problem, Fields: fields}
}

// unchangeable lists the fields of which the API server says that they cannot be changed, if that is all that it says: an object that
// is wrong in itself would be refused as a new one, too.
func unchangeable(status metav1.Status) []string {
	fields := causes(status, func(message string) bool {
		return slices.ContainsFunc([]string{
			"immutable", "cannot change", "cannot be changed", "may not change", "may not be changed", "not be updated",
			"updates to ", "updates may not change", "update is forbidden",
		}, func(words string) bool { return strings.Contains(message, words) })
	})
	if len(fields) < len(causes(status, func(string) bool { return true })) {
		return nil
	}
	return fields
}

// causes lists the fields of the causes whose messages are as wanted, each once.
func causes(status metav1.Status, wanted func(message string) bool) (fields []string) {
	if status.Details == nil {
		return nil
	}
	for _, cause := range status.Details.Causes {
		if wanted(strings.ToLower(cause.Message)) && !slices.Contains(fields, cause.Field) {
			fields = append(fields, cause.Field)
		}
	}
	return fields
}

// probe asks the API server whether it would create the object, were there none of its name.
func (c *Client) probe(ctx context.Context, resource dynamic.ResourceInterface, obj *unstructured.Unstructured) error {
	other := obj.DeepCopy()
	other.SetName("")
	other.SetGenerateName("leat-probe-")
	_, err := resource.Create(ctx, other, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager})
	return err
}

// terminating is what the API server says about an object whose namespace is being deleted.
const terminating metav1.CauseType = "NamespaceTerminating"

// closing is the message about the object's namespace if that is why it was refused.
func closing(err error) string {
	cause, ok := apierrors.StatusCause(err, terminating)
	if !ok {
		return ""
	}
	return cause.Message
}
