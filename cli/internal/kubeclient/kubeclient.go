// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeclient prepares clients of an API server that the command line does not trust to answer within bounds.
package kubeclient

import (
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leatdev/leat/cli/internal/failure"
)

const (
	maxAnswer   = 64 << 20 // bytes of one answer
	callsPerSec = 50       // the client's own limit
)

// Load returns how a cluster is reached by a kubeconfig and one of its contexts, and the namespace that is meant there by default. An empty
// file is the user's own or, in a pod, the pod's account; an empty context the current one.
func Load(kubeconfig, kubeContext string) (config *rest.Config, namespace string, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	file := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: kubeContext})
	if config, err = file.ClientConfig(); err != nil {
		return nil, "", failure.New(fmt.Sprintf("cannot use the kubeconfig: %v", err), "Check --kubeconfig and --kube-context; kubectl config get-contexts lists contexts.")
	}
	namespace, _, err = file.Namespace()
	return config, namespace, err
}

// Bounded returns a copy of a configuration with which clients read at most 64 MiB of an answer, ask at most 50 times a
// second, and print no warnings of the API server.
func Bounded(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = callsPerSec, 2*callsPerSec
	config.WarningHandler = rest.NoWarnings{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
	return config
}

// bounded bounds the answers of an API server.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err == nil {
		response.Body = &boundedBody{ReadCloser: response.Body, room: maxAnswer}
	}
	return response, err
}

type boundedBody struct {
	io.ReadCloser

	room int64
}

// Read implements io.Reader. It fails where the answer exceeds the limit.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.room -= int64(n); b.room < 0 {
		return 0, fmt.Errorf("the API server's answer has more than %d MiB", maxAnswer>>20)
	}
	return n, err
}
