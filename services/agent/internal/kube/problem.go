// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// isTransient reports whether a retry may succeed a moment later.
func isTransient(err error) bool {
	if meta.IsNoMatchError(err) {
		return false
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return true // the API server was not reached
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}

// translate turns client-go's errors into the errors that reconcile.Cluster promises.
func translate(err error, kind string) error {
	status := apierrors.APIStatus(nil)
	switch {
	case errors.Is(err, k8s.ErrReplaced):
		return err
	case meta.IsNoMatchError(err):
		return rejectedf("the cluster has no such kind (%v); install its definition first", err)
	case !errors.As(err, &status):
		return reason.Errorf(reason.ClusterUnreachable, "the cluster's API server cannot be reached: %v", err)
	case webhookOf(status.Status()) != "": // whatever else its answer looks like
		return rejectedf("the API server refused: %s", words(status.Status(), kind))
	case apierrors.IsNotFound(err) && isAbout(status.Status(), kind):
		return fmt.Errorf("%w: %s", k8s.ErrNotFound, status.Status().Message)
	case len(conflicts(status.Status())) > 0:
		return k8s.NewConflictError(conflicts(status.Status()), kind == secretKind)
	case closing(err) != "":
		return rejectedf("%s; the agent retries until the namespace is gone and exists again", closing(err))
	case isTransient(err) && !apierrors.IsInternalError(err):
		return reason.Errorf(reason.ClusterUnreachable, "the cluster's API server does not serve: %s", words(status.Status(), kind))
	default:
		return rejectedf("the API server refused: %s", words(status.Status(), kind))
	}
}

// isAbout reports whether the object is missing, and not its namespace, without which an apply
// fails.
func isAbout(status metav1.Status, kind string) bool {
	return kind == "Namespace" || status.Details == nil || status.Details.Kind != "namespaces"
}

// conflicts returns which manager owns which field.
func conflicts(status metav1.Status) []k8s.Conflict {
	if status.Code != http.StatusConflict || status.Details == nil {
		return nil
	}
	var all []k8s.Conflict
	for _, cause := range status.Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			all = append(all, k8s.Conflict{Manager: managerIn(cause.Message), Field: cause.Field})
		}
	}
	return all
}

// managerIn returns the name in: conflict with "name" using apps/v1.
func managerIn(message string) string {
	_, rest, _ := strings.Cut(message, "conflict with ")
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return message
	}
	name, err := strconv.Unquote(quoted)
	if err != nil {
		return message
	}
	return name
}

// secretKind is the kind whose messages from the API server are not repeated.
const secretKind = "Secret"

// words returns the API server's message. For a Secret it returns only what cannot repeat a value:
// the reason, the wrong fields with the type of their error, and the known causes without a field.
func words(status metav1.Status, kind string) string {
	if kind != secretKind {
		return status.Message
	}
	text := cmp.Or(string(status.Reason), http.StatusText(int(status.Code)), "no reason given")
	webhook, policy := webhookOf(status), policyOf(status)
	switch {
	case webhook != "": // it may have written a value into the reason and the causes, too
		text = fmt.Sprintf("admission webhook %s denied the request", webhook)
	case policy != "": // its causes repeat its message, and name no field
		text += ", denied by ValidatingAdmissionPolicy " + policy
	case status.Details != nil:
		for _, cause := range status.Details.Causes {
			text += fmt.Sprintf(", %s: %s", cause.Field, cause.Type)
		}
	}
	for part, meaning := range secretCauses {
		if strings.Contains(status.Message, part) {
			text += ", " + meaning
		}
	}
	return text + "; its words are withheld, because they may repeat a value of the Secret: to read them, run " +
		"kubectl apply --server-side --dry-run=server with the manifest"
}

// webhookOf returns the name of the admission webhook that denied a request, or "" if none did. The
// API server begins the message with the name. The rest of the status, including its code, its
// reason and its causes, comes from the webhook.
func webhookOf(status metav1.Status) string {
	rest, isDenied := strings.CutPrefix(status.Message, "admission webhook ")
	if !isDenied {
		return ""
	}
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return ""
	}
	name, err := strconv.Unquote(quoted)
	if err != nil {
		return ""
	}
	return name
}

// isDenied reports whether an admission webhook denied a request. Its answer may have any code,
// such as the code of a conflict.
func isDenied(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && webhookOf(status.Status()) != ""
}

// denyingPolicy matches how the API server begins the message of a policy that denied a request.
var denyingPolicy = regexp.MustCompile(`^\S+ "[^"]*" is forbidden: ValidatingAdmissionPolicy '([a-z0-9.-]+)' with binding '[a-z0-9.-]+' denied request: `)

// policyOf returns the name of the ValidatingAdmissionPolicy that denied a request, or "" if none
// did.
func policyOf(status metav1.Status) string {
	if found := denyingPolicy.FindStringSubmatch(status.Message); found != nil {
		return found[1]
	}
	return ""
}

// secretCauses explains parts of messages about Secrets that name no field.
var secretCauses = map[string]string{
	"illegal base64 data":                 "a value under data is not base64: encode it, or put the plain text under stringData",
	"cannot unmarshal":                    "a value under data or stringData is not a string: put it in quotes",
	"expected string, got":                "a value under data or stringData is not a string: put it in quotes",
	"exceeded quota":                      "it exceeds a quota of the namespace",
	"because it is being terminated":      "its namespace is being deleted",
	"field is immutable when `immutable`": "it is immutable: delete it, or set recreate in the service's policy",
}

func rejectedf(format string, args ...any) *reason.Problem {
	return reason.Errorf(reason.ApplyRejected, format, args...)
}

// terminating is the API server's cause for an object whose namespace is being deleted.
const terminating metav1.CauseType = "NamespaceTerminating"

// closing returns the message about the object's namespace, or "" if the object was rejected for
// another reason.
func closing(err error) string {
	cause, ok := apierrors.StatusCause(err, terminating)
	if !ok {
		return ""
	}
	return cause.Message
}
