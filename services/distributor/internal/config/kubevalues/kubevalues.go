// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubevalues reads Secrets and ConfigMaps of a Kubernetes cluster. It calls as package
// backendcall does, with plain HTTPS: it reads one object by name and nothing else, so that the
// right to get these objects is enough.
package kubevalues

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/distributor/internal/config/backendcall"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// configMaps begins the path of a ConfigMap.
const configMaps = "configmaps"

// maxCA bounds the file of the own cluster's certificates.
const maxCA = 256 << 10

// OwnCluster is the hub's own cluster, as its operator opens it. The zero value is not open.
type OwnCluster struct {
	// URL is the URL of the API server.
	URL string
	// CAFile holds the certificates to trust. Empty: the system's.
	CAFile string
	// TokenFile holds the token to sign in with, and is read for each call.
	TokenFile string
}

// Params are the parts of a Backend besides its document.
type Params struct {
	Own OwnCluster
	// HubToken is lent to clusters of the hosts that the operator names.
	HubToken backendcall.HubToken
	// Guard decides which addresses are dialled for a document. The own cluster is the operator's
	// choice.
	Guard dialguard.Guard
}

// Backend is a cluster.
type Backend struct {
	url    string
	token  func() (secret.Text, error)
	client *backendcall.Client
}

var _ configs.Backend = (*Backend)(nil)

// Open returns the cluster that a document describes. It calls nothing yet.
func Open(backend *catalog.ConfigBackend, p Params) (*Backend, error) {
	k := backend.Spec.Kubernetes
	if k == nil {
		return nil, errors.New("the back end is not a cluster")
	}
	b, call := &Backend{url: k.URL}, backendcall.Params{Control: p.Guard.Control, CAPEM: k.CAPEM}
	switch k.Auth {
	case catalog.KubernetesByOperator:
		if p.Own.URL == "" || p.Own.TokenFile == "" {
			return nil, errors.New("the operator of the hub has not opened its own cluster: --distributor-config-kubernetes-token-file")
		}
		ca, err := readCA(p.Own.CAFile)
		if err != nil {
			return nil, err
		}
		b.url, call.CAPEM, call.Control = strings.TrimRight(p.Own.URL, "/"), ca, dialguard.Guard{AllowLocal: true}.Control
		b.token = func() (secret.Text, error) { return backendcall.ReadToken(p.Own.TokenFile) }
	case catalog.KubernetesByToken:
		b.token = func() (secret.Text, error) { return backend.Spec.Credential, nil }
	case catalog.KubernetesByHubToken:
		b.token = func() (secret.Text, error) { return p.HubToken.For(k.URL) }
	default:
		return nil, errors.New("this version of the hub does not know how to sign in to the back end")
	}
	var err error
	b.client, err = backendcall.New(call)
	return b, err
}

func readCA(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > maxCA {
		return "", errors.New("the certificates of the hub's own cluster cannot be read: --distributor-config-kubernetes-ca-file")
	}
	content, err := os.ReadFile(path)
	if err != nil || len(content) == 0 {
		return "", errors.New("the certificates of the hub's own cluster cannot be read: --distributor-config-kubernetes-ca-file")
	}
	return string(content), nil
}

// Close implements configs.Backend.
func (b *Backend) Close() error {
	b.client.Close()
	return nil
}

// Check implements configs.Backend: it asks the server who the hub is, which every identity may.
func (b *Backend) Check(ctx context.Context) error {
	const review = `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	_, err := b.call(ctx, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
	_, isDenied := errors.AsType[*configs.DeniedError](err)
	_, isAbsent := errors.AsType[*configs.NotFoundError](err)
	if isDenied || isAbsent {
		return nil // an old server, or one that has taken this right away: the credential is good
	}
	return err
}

// names are the names of namespaces and objects.
var names = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// Read implements configs.Backend.
func (b *Backend) Read(ctx context.Context, path string) (configs.Entry, error) {
	elements, resource := strings.Split(path, "/"), "secrets"
	if len(elements) == 3 && elements[0] == configMaps {
		elements, resource = elements[1:], configMaps
	}
	if len(elements) != 2 || !names.MatchString(elements[0]) || !names.MatchString(elements[1]) {
		return configs.Entry{}, &configs.NotFoundError{Detail: "the path is neither NAMESPACE/NAME of a Secret nor configmaps/NAMESPACE/NAME"}
	}
	content, err := b.call(ctx, http.MethodGet, "/api/v1/namespaces/"+elements[0]+"/"+resource+"/"+elements[1], "")
	if err != nil {
		return configs.Entry{}, err
	}
	return entryOf(content, elements[1], resource)
}

// entryOf reads the entry in an object.
func entryOf(content []byte, name, resource string) (configs.Entry, error) {
	var object struct {
		Metadata struct {
			Name            string `json:"name"`
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Data       map[string]string `json:"data"`
		BinaryData map[string]string `json:"binaryData"`
	}
	if err := json.Unmarshal(content, &object); err != nil || object.Metadata.Name != name {
		return configs.Entry{}, errors.New("the answer is not the object that was asked for")
	}
	if len(object.Data)+len(object.BinaryData) > configs.MaxFields {
		return configs.Entry{}, fmt.Errorf("the object has %d keys; at most %d are allowed", len(object.Data)+len(object.BinaryData), configs.MaxFields)
	}
	values := make(map[string][]byte, len(object.Data))
	for key, text := range object.Data {
		values[key] = []byte(text)
		if resource == configMaps {
			continue
		}
		value, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return configs.Entry{}, fmt.Errorf("the value of the key %q is not base64", key)
		}
		values[key] = value
	}
	entry := configs.EntryOf(values, object.Metadata.ResourceVersion)
	entry.NotText = slices.AppendSeq(entry.NotText, maps.Keys(object.BinaryData)) // which never holds text
	slices.Sort(entry.NotText)
	return entry, nil
}

// call makes one call, and returns the body of its answer.
func (b *Backend) call(ctx context.Context, method, path, body string) ([]byte, error) {
	token, err := b.token()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, b.url+path, strings.NewReader(body))
	if err != nil {
		return nil, errors.New("the path makes no URL")
	}
	req.Header.Set("Authorization", "Bearer "+token.Reveal())
	req.Header.Set("Accept", "application/json")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	content, _, err := b.client.Do(req)
	status, ok := errors.AsType[*backendcall.StatusError](err)
	switch {
	case ok && status.Code == http.StatusUnauthorized:
		return nil, errors.New("the cluster does not accept the hub's token (401)")
	case ok && status.Code == http.StatusCreated:
		return nil, nil
	}
	return content, err
}
