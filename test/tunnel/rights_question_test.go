// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// rightsNamespace is where the requests of the table lead, and rightsPod the pod there.
const (
	rightsNamespace = "rights"
	rightsPod       = "box"
)

// question is a request of the table.
type question struct {
	name         string
	method, path string
	header       map[string]string
	body         []byte
	// isEndless is true for a watch, whose answer does not end.
	isEndless bool
	// isEmpty is true where nothing is there that the request is about, so that 404 is the answer of
	// what lies behind the hub.
	isEmpty bool
}

// objects are the bodies of creations, by the last part of the path.
var objects = map[string]string{
	"selfsubjectreviews":       `{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}`,
	"selfsubjectaccessreviews": `{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}`,
	"subjectaccessreviews":     `{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods"}}}`,
	"configmaps":               `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "new-"}}`,
	"namespaces":               `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "new-"}}`,
	"rolebindings": `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"generateName": "new-"},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}}`,
	"eviction": `{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "none"}}`,
	"token":    `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}`,
	"none":     `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "none"}}`,
}

// questionOf makes the request of a row of "Requests to clusters".
func questionOf(row rightsRow) question {
	method, path, _ := strings.Cut(row.name, " ")
	q := question{
		name: row.name, method: method, header: map[string]string{},
		path: strings.NewReplacer("NAMESPACE", rightsNamespace, "POD", rightsPod).Replace(path), isEmpty: strings.Contains(path, "/none"),
	}
	q.isEndless = strings.Contains(path, "watch=true")
	before, _, _ := strings.Cut(path, "?")
	last := before[strings.LastIndexByte(before, '/')+1:]
	switch {
	case last == "exec" || last == "attach" || last == "portforward":
		q.header = upgrade(method)
	case method == http.MethodPatch:
		q.header["Content-Type"], q.body = "application/merge-patch+json", []byte(`{"metadata": {"labels": {"a": "b"}}}`)
	case method == http.MethodPost || method == http.MethodPut:
		q.header["Content-Type"], q.body = "application/json", []byte(objects[last])
	}
	return q
}

// upgrade returns the header of a connection of kubectl's: a WebSocket, or SPDY.
func upgrade(method string) map[string]string {
	if method == http.MethodPost {
		return map[string]string{"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}
	}
	return map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-Websocket-Version": "13", "Sec-Websocket-Key": "MDEyMzQ1Njc4OTAxMjM0NQ==",
		"Sec-Websocket-Protocol": "v4.channel.k8s.io",
	}
}

// callOf makes a call in JSON. A service that is called none is not there.
func callOf(method protoreflect.MethodDescriptor) question {
	q := question{
		name: string(method.Name()), method: http.MethodPost, path: fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name()),
		body: []byte(`{}`), header: map[string]string{"Content-Type": "application/json"},
	}
	if method.Input().Fields().ByName("service") != nil && !method.IsStreamingServer() {
		q.body, q.isEmpty = []byte(`{"service": "none"}`), true
	}
	if method.Input().Fields().ByName("metric") != nil {
		q.body = []byte(`{"service": "none", "metric": "METRIC_CPU"}`)
	}
	if method.Input().Fields().ByName("id") != nil {
		q.body, q.isEmpty = []byte(`{"id": "0123456789abcdef0123456789abcdef"}`), true
	}
	if method.IsStreamingServer() || method.IsStreamingClient() {
		q.isEndless, q.header["Content-Type"] = true, "application/connect+json"
		q.body = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(q.body))), q.body...)
	}
	return q
}
