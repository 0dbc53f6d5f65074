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

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// explain turns the rejection of an apply into an ImmutableError if the API server rejected the
// change, and not the object. The API server returns the reason Invalid for both, and only its
// message shows that a field cannot be changed. So explain asks whether the API server would create
// the same object under another name, which also recognises messages of other authors, such as the
// rules of a definition. If it would not, the usual phrases decide: a field that is allocated once,
// such as the port of a Service, fails under another name, too. kind is the kind of [Client.try].
func (c *Client) explain(
	ctx context.Context, resource dynamic.ResourceInterface, obj *unstructured.Unstructured, kind string, raw, refused error,
) error {
	problem, ok := errors.AsType[*reason.Problem](refused)
	status := apierrors.APIStatus(nil)
	if !ok || !apierrors.IsInvalid(raw) || !errors.As(raw, &status) {
		return refused
	}
	if kind == secretKind && webhookOf(status.Status()) != "" {
		return refused // the fields that a webhook names may hold a value
	}
	fields := unchangeable(status.Status())
	err := c.probe(ctx, resource, obj)
	switch {
	case err == nil && len(fields) == 0:
		fields = causes(status.Status(), func(string) bool { return true })
	case err != nil && len(fields) == 0, apierrors.IsForbidden(err): // not the change: a new object would be rejected, too
		return refused
	}
	return &k8s.ImmutableError{Problem: problem, Fields: fields}
}

// unchangeable returns the fields that the API server reports as unchangeable, if it reports
// nothing else: an invalid object would be rejected as a new one, too.
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

// causes returns the fields of the causes whose messages match, each once.
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

// probe asks the API server whether it would create the object under an unused name.
func (c *Client) probe(ctx context.Context, resource dynamic.ResourceInterface, obj *unstructured.Unstructured) error {
	other := obj.DeepCopy()
	other.SetName("")
	other.SetGenerateName("leat-probe-")
	_, err := resource.Create(ctx, other, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager})
	return err
}
